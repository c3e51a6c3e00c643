"""A tokenizer that remembers gives the ids of the one that it asks."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.text import memory
from rejoinder.text.memory import Remembered
from rejoinder.encoders.persistence import load
from rejoinder.text import known_texts
from rejoinder.text.pretrained import MarkedPretrained, Pretrained, build_bpe
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


BERT_TOKENIZER = load("bi-small").tokenizer
FEWER_TOKENS = {  # opening all of them takes longer than all that is read by them
    token: number
    for token, number in BERT_TOKENIZER.description["model"]["vocab"].items()
    if len(token.removeprefix("##")) <= 3 or token == "hello" or token[0] == "["
}
OF_EACH_KIND = [
    kind(
        {
            **BERT_TOKENIZER.description,
            "model": {**BERT_TOKENIZER.description["model"], "vocab": FEWER_TOKENS},
        },
        BERT_TOKENIZER.special,
        cut=BERT_TOKENIZER.cut,
    )
    for kind in (Pretrained, MarkedPretrained)
]
PIECES = st.sampled_from(
    [
        *"ab \t\n\r\x1c\x85\u00a0\u2028\u200b\u3000\u0301\u0130\u1e9e\u4e2d\u03a3",
        *("é", " [SEP] ", "[MASK]", "don't", "##ing", "x" * 101, "hello"),
        *("\U0001f44d\U0001f3fd", "\ud800"),
    ]
)


@settings(max_examples=400)
@given(
    st.lists(st.lists(st.one_of(PIECES, st.characters()), max_size=9).map("".join), max_size=5),
    st.sampled_from([None, 1, 3, 64]),
)
def test_a_berts_words_are_read_one_by_one_with_the_same_ids(texts, length):
    for plain in OF_EACH_KIND:
        remembering = plain.remembering()
        assert remembering is not plain
        for _ in range(2):
            for found, wanted in zip(
                remembering.encode_ragged(texts, length),
                plain.encode_ragged(texts, length),
                strict=True,
            ):
                assert np.array_equal(found, wanted)
                assert found.dtype == np.int32


def test_words_are_read_once_and_forgotten_when_there_are_many(monkeypatch):
    monkeypatch.setattr(known_texts, "MOST_WORDS", 3)
    read = []

    def lengths(words):
        read.extend(words)
        return np.array([len(word) for word in words], np.int32), np.ones(len(words), np.int32)

    words = known_texts.KnownWords(lengths)
    assert words.read(["a bb", "bb  a"])[0].tolist() == [1, 2, 2, 0, 1]
    assert words.read(["bb ccc", "", "dddd"])[1].tolist() == [2, 1, 1]
    assert read == ["a", "bb", "", "ccc", "dddd"]
    assert words.read(["a"])[0].tolist() == [1]
    assert read[5:] == ["a"]


def test_threads_share_the_words_that_are_read():
    texts = [f"{a} {b} word{a}{b}" for a in range(60) for b in range(60)]
    wanted = BERT_TOKENIZER.encode_ragged(texts)
    for _ in range(5):
        remembering = BERT_TOKENIZER.remembering()
        with ThreadPoolExecutor(4) as threads:
            parts = [texts[start:] + texts[:start] for start in (0, 900, 1800, 2700)]
            found = [*threads.map(remembering.encode_ragged, parts)]
        np.testing.assert_array_equal(found[0][0], wanted[0])
        for (ids, lengths), part in zip(found, parts, strict=True):
            assert np.array_equal(ids, BERT_TOKENIZER.encode_ragged(part)[0])
            assert lengths.sum() == len(ids)


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer", "model"])
def test_a_tokenizer_that_may_look_beyond_a_space_is_not_split(part):
    description = {**BERT_TOKENIZER.description}
    description[part] = {**description[part], "type": "another"}
    tokenizer = Pretrained.__new__(Pretrained)
    tokenizer.description = description
    assert tokenizer.remembering() is tokenizer
    bpe = build_bpe(["some words of a text", "some more words"] * 3)
    assert bpe.remembering() is bpe
