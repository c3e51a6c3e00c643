"""Building vocabularies."""

import random
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.errors import InputError
from rejoinder.text.splitting import lower
from rejoinder.text.subwords import MARK, Subwords
from rejoinder.text.vocabulary import build_subwords


def zipf_corpus(words=3000, texts=4000):
    """Texts of made-up words with the frequencies of a language."""
    generator = random.Random(0)
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in "aeiou"]
    vocabulary = ["".join(generator.choices(syllables, k=generator.randint(1, 4))) for _ in range(words)]
    weights = [1 / rank for rank in range(1, words + 1)]
    return [" ".join(generator.choices(vocabulary, weights, k=10)) + "." for _ in range(texts)]


def test_order_of_the_corpus_does_not_matter():
    texts = zipf_corpus(texts=300)
    assert build_subwords(texts, minimum_count=3).subwords == build_subwords(texts[::-1], minimum_count=3).subwords


def test_target_size_is_met_within_one_percent():
    texts = zipf_corpus()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built = build_subwords(iter(texts), target_size=300)
    assert abs(built.size - 300) <= 3


def test_closest_size_is_taken_with_a_warning():
    with pytest.warns(UserWarning, match=r"no minimum count gives 5000 .* the closest, 1, gives") as caught:
        built = build_subwords(["a small corpus"], target_size=5000)
    assert built.subwords == build_subwords(["a small corpus"], minimum_count=1).subwords
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("texts", "settings", "message"),
    [
        ([], {}, "no text"),
        (["", ""], {}, "no text"),
        ("hello", {}, "one string"),
        (["abcdefghij"], {"target_size": 5}, "target_size is 5, but the corpus has 11 characters"),
        *((["hello"], {name: 0}, f"{name} is 0") for name in ("minimum_count", "target_size", "iterations", "max_bytes",
                                                              "max_digits", "buckets")),
    ],
)  # fmt: skip
def test_impossible_calls_are_refused(texts, settings, message):
    with pytest.raises(InputError, match=message):
        build_subwords(texts, **settings)


def test_lone_surrogates_do_not_enter_the_vocabulary():
    built = build_subwords(["a\ud83db", "\ude00", "\ud83d\ude00"] * 5, minimum_count=2)
    assert all(subword.encode() for subword in built.subwords)
    assert built.decode(built.encode("a\ud83db")) == "a\ufffdb"


@pytest.mark.parametrize("unit", ["0123456789", "日", MARK])
def test_a_word_of_a_hundred_thousand_characters_is_counted(unit):
    text = unit * (100_000 // len(unit))
    built = build_subwords([text, "hello there"], minimum_count=1)
    assert MARK + "hello" in built.subwords
    assert built.decode(built.encode(text)) == text


CHARACTERS = st.one_of(st.sampled_from("ab1 .\ufe4f\n"), st.characters(exclude_categories=["Cs"]))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(CHARACTERS), min_size=1).filter(any))
def test_a_corpus_comes_back_from_its_own_vocabulary(texts):
    built = build_subwords(texts, minimum_count=2)
    assert isinstance(built, Subwords)
    for text in texts:
        assert built.decode(built.encode(text)) == lower(text)
