"""A tokenizer that remembers gives the ids of the one that it asks."""

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.text import memory
from rejoinder.text.memory import Remembered
from tests.encoders.conftest import SUBWORDS

WORDS = st.lists(st.sampled_from(["hello", "", "the cat", "a, b?", "x" * 40]), max_size=12)


@given(st.lists(st.tuples(WORDS, st.sampled_from([None, 3, 20])), min_size=1, max_size=6))
def test_ids_are_those_of_the_tokenizer(calls):
    remembered = Remembered(SUBWORDS)
    for texts, length in calls:
        for found, wanted in zip(
            remembered.encode_ragged(texts, length),
            SUBWORDS.encode_ragged(texts, length),
            strict=True,
        ):
            assert np.array_equal(found, wanted)
            assert found.dtype == np.int32


def test_each_text_is_read_once_until_there_are_many(monkeypatch):
    read = []

    class Counting(type(SUBWORDS)):
        def encode_ragged(self, texts, max_length=None):
            read.extend(texts)
            return super().encode_ragged(texts, max_length)

    monkeypatch.setattr(memory, "MOST", 3)
    remembered = Remembered(Counting(SUBWORDS.subwords))
    remembered.encode_ragged(["a", "b", "a"])
    remembered.encode_ragged(["b", "c", "d"])
    assert read == ["a", "b", "c", "d"]
    remembered.encode_ragged(["a"])
    assert read[4:] == ["a"], "four were too many"


def test_a_worker_gets_the_tokenizer_alone():
    remembered = Remembered(SUBWORDS)
    remembered.encode_ragged(["a"] * 100)
    again = pickle.loads(pickle.dumps(remembered))
    assert again.fingerprint == SUBWORDS.fingerprint
    assert np.array_equal(again.encode_ragged(["a"])[0], SUBWORDS.encode_ragged(["a"])[0])
