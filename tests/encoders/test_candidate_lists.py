import numpy as np
import pytest

from rejoinder.encoders.candidates import candidate_lists
from rejoinder.errors import InputError

LISTS = [["At nine.", "A blue car."], ["It is on its way.", "At nine."], ["You are welcome.", "No idea."]]


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_each_context_has_its_own_candidates_whatever_holds_them(kind):
    lists = candidate_lists([["Hi"]] * 3, kind(LISTS))
    assert [[lists.texts[row] for row in rows] for rows in lists.rows] == LISTS
    assert len(lists.texts) == 5


def test_a_list_that_contexts_share_is_looked_up_once():
    shared = ["At nine.", "A blue car."]
    lists = candidate_lists([["Hi"]] * 3, [shared, LISTS[1], shared])
    assert [contexts.tolist() for contexts, _ in lists.groups] == [[0, 2], [1]]


def test_lists_of_other_lengths_are_refused():
    with pytest.raises(InputError, match="differ in length"):
        candidate_lists([["Hi"]] * 2, [["a"], ["a", "b"]])
