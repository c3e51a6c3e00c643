"""Words and pairs of words: what becomes of a text, and of a damaged vocabulary."""

import pickle

import numpy as np
import pytest

from rejoinder.errors import InputError
from rejoinder.text.ngrams import LONG, NGrams, build_ngrams, words_of

CORPUS = ["how are you?", "how are things?", "fine, how are you?", "fine"]
SMALL = build_ngrams(CORPUS, minimum_count=2, bigrams=4, buckets=50)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("well, i don't know...", ["well", ",", "i", "don't", "know", "..."]),
        ("1234 12345 a123456b", ["1234", "#####", "a######b"]),
        ("abcdefghijklmnop abcdefghijklmnopq", ["abcdefghijklmnop", LONG]),
        ("12345678901234567", [LONG]),
        ("i'm; rock 'n' roll's", ["i'm", ";", "rock", "'", "n", "'", "roll's"]),
        ("naïve \u201eäh\u201c don\u2019t", ["naïve", "\u201e", "äh", "\u201c", "don\u2019t"]),
        ("日本語、です 😀", ["日本語", "、", "です", "😀"]),
        ("a\nb\tc\u00a0d\u3000e\x00f", ["a", "b", "c", "d", "e", "f"]),
        (" \n\x00 ", []),
    ],
)
def test_words(text, found):
    assert words_of(text) == found


def test_unknown_words_have_ids_of_their_own_that_never_change():
    one, other = SMALL.encode("qwertz")[2], SMALL.encode("asdfgh")[2]
    first = len(SMALL.unigrams) + len(SMALL.bigrams)
    assert (one - first, other - first) == (37, 43)
    assert SMALL.encode("qwertz") == pickle.loads(pickle.dumps(SMALL)).encode("qwertz")
    assert SMALL.encode("\ud800 x"), "half a character too"


def test_a_very_long_text_is_read_no_further_than_needed():
    assert SMALL.encode_ragged(["how " * 1_000_000], 5)[1].tolist() == [9]


@pytest.mark.parametrize("count", [0, 1, 3000])
def test_every_pair_of_any_number_is_found(count):
    """The hash table, full of pairs that share places."""
    unigrams = ["<S>", "</S>", *(f"w{number}" for number in range(100))]
    generator = np.random.default_rng(0)
    pairs = np.unique(generator.integers(2, 102, (count, 2)), axis=0)
    generator.shuffle(pairs)
    tokenizer = NGrams(unigrams, pairs, 10)
    numbers = {tuple(pair): 102 + i for i, pair in enumerate(pairs.tolist())}
    for first in range(2, 102, 7):
        text = " ".join(f"w{first - 2} w{second - 2}" for second in range(2, 102))
        found = tokenizer.encode(text)[3::4][:100]
        for second, number in zip(range(2, 102), found, strict=True):
            expected = numbers.get((first, second))
            assert number == expected if expected is not None else number >= 102 + len(pairs)


def test_the_order_of_the_texts_does_not_matter():
    again = build_ngrams(CORPUS[::-1], minimum_count=2, bigrams=4, buckets=50)
    assert again.fingerprint == SMALL.fingerprint
    assert (
        build_ngrams(CORPUS, minimum_count=1, bigrams=4, buckets=50).fingerprint
        != SMALL.fingerprint
    )
    assert len(build_ngrams(CORPUS, minimum_count=1, bigrams=0, buckets=1).bigrams) == 0


def test_wrong_calls_are_explained():
    with pytest.raises(InputError, match="give a list of texts"):
        SMALL.encode_ragged("how")
    with pytest.raises(InputError, match="at least 1"):
        SMALL.encode_ragged(["how"], 0)
    with pytest.raises(InputError, match="no word in the texts"):
        build_ngrams(["", " "])
