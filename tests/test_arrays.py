"""Groups of texts by length."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.arrays import by_length, by_like_length

LENGTHS = st.lists(st.integers(0, 64), max_size=200).map(lambda values: np.array(values, dtype=np.int32))


@given(LENGTHS, st.integers(1, 500))
def test_every_text_is_in_one_group_and_groups_go_from_short_to_long(lengths, tokens):
    for groups in (by_length(lengths, tokens), by_like_length(lengths, tokens)):
        order = [row for group in groups for row in group.tolist()]
        assert sorted(order) == list(range(len(lengths)))
        assert (np.diff(lengths[order]) >= 0).all()


@given(LENGTHS, st.integers(1, 500))
def test_less_than_half_of_a_group_of_like_length_is_padding(lengths, tokens):
    for group in by_like_length(lengths, tokens):
        known = np.maximum(lengths[group], 1)
        assert known.max() < 2 * known.min()
        assert known[:-1].sum() <= tokens + known.max()


@pytest.mark.parametrize("group", [by_length, by_like_length])
def test_no_texts_have_no_groups(group):
    assert list(group(np.empty(0, dtype=np.int32), 10)) == []
