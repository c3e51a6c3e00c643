from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from rejoinder.text.words.word_list import WordList

WORDS = st.text("abcdé'\u0161\U0001f600", max_size=6)


@given(st.lists(WORDS, max_size=30), WORDS, st.integers(0, 3))
def test_the_words_within_some_slips_are_those_that_a_comparison_with_each_finds(words, word, slips):
    distances = [(near, OSA.distance(word, near)) for near in words]
    expected = [pair for pair in distances if pair[1] <= slips]
    assert sorted(WordList(words).within(word, slips)) == sorted(expected)


def test_a_slip_is_a_letter_too_many_missing_another_or_two_in_the_wrong_order():
    words = WordList(["order", "oder", "ordeer", "orber", "rodre", "parcel"])
    assert words.within("order", 1) == [("order", 0), ("oder", 1), ("ordeer", 1), ("orber", 1)]
    assert ("rodre", 2) in words.within("order", 2)


def test_letters_beyond_what_is_counted_are_compared():
    long = "a" * 300
    assert WordList([long, "b" * 300]).within(f"{long}b", 1) == [(long, 1)]
