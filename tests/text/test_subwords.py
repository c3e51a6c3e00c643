"""Splitting into words, text to ids and back, and building vocabularies."""

import pickle
import random
import subprocess
import sys
import unicodedata
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.errors import InputError
from rejoinder.text import subwords as module
from rejoinder.text.tokens import lower, tokens
from rejoinder.text.subwords import MARK, UNKNOWN, Subwords
from rejoinder.text.vocabulary_building import build_subwords

CORPUS = [
    "How are you doing today?",
    "I'm doing well, thanks -- and you?",
    "Wow... 12345 people! \ufe4f\ufe4f odd\ufe4fmarks \ufe4f. \n new\nline\t",
    "日本語。 e\u0301te\u0301 😀👍🏽  $5",
]
KNOWN = sorted(set("".join(CORPUS)))
TEXT = st.text(st.one_of(st.sampled_from(KNOWN), st.characters(codec=None)), max_size=60)
CHARACTERS = st.one_of(st.sampled_from("ab1 .\ufe4f\n"), st.characters(exclude_categories=["Cs"]))


@pytest.fixture(scope="module")
def subwords():
    return build_subwords(CORPUS, minimum_count=2, buckets=50)


def tiny(*subwords, buckets=1000):
    return Subwords([MARK, *subwords], buckets)


@pytest.mark.parametrize(
    ("character", "bucket"), [("é", 326), ("日", 946), ("😀", 756), ("\ud800", 600)]
)
def test_bucket_of_an_unknown_character_never_changes(character, bucket):
    # CRC-32 of the UTF-8 modulo 1,000, worked out bit by bit with another program.
    assert tiny().encode(character) == [0, 1 + bucket]


def test_ids_are_the_same_in_every_process(subwords):
    program = (
        "from rejoinder.text.vocabulary_building import build_subwords\n"
        f"v = build_subwords({CORPUS!r}, minimum_count=2, buckets=50)\n"
        "print(v.fingerprint, v.encode('How are ü 語 Ж?'))"
    )
    expected = f"{subwords.fingerprint} {subwords.encode('How are ü 語 Ж?')}"
    command, env = [sys.executable, "-c", program], {"PYTHONHASHSEED": "1"}
    assert subprocess.check_output(command, env=env, text=True).strip() == expected


@settings(max_examples=300)
@given(st.text("a .\ufe4f", max_size=12))
def test_marks_in_the_text_survive(text):
    for vocabulary in (
        tiny("a", " ", "."),
        tiny("a", " ", ".", MARK * 2, MARK + "a", "." + MARK, MARK * 2 + "."),
    ):
        assert vocabulary.decode(vocabulary.encode(text)) == text


@settings(max_examples=300)
@given(TEXT)
def test_any_unicode_text_gives_valid_ids(subwords, text):
    ids = subwords.encode(text)
    assert all(0 <= number < subwords.padding_id for number in ids)
    assert bool(ids) == bool(text)
    unknown = sum(character not in subwords.subwords for character in lower(text))
    assert sum(number >= subwords.size for number in ids) == unknown
    assert subwords.decode(ids).count(UNKNOWN) == unknown


def test_decoding_unknown_characters_padding_and_impossible_ids():
    vocabulary = tiny("a", "!", " ")
    assert (
        vocabulary.decode([*vocabulary.encode("aé 日 !"), vocabulary.padding_id])
        == "a\ufffd \ufffd !"
    )
    for number in (-1, 1003):
        with pytest.raises(InputError, match=f"id {number} is not in 0 to 1002"):
            tiny("a").decode([0, number])


@settings(max_examples=300)
@given(TEXT)
def test_spans_cover_the_text_but_for_the_spaces_between_words(subwords, text):
    ids = subwords.encode(text)
    spans = subwords.spans(text)
    assert len(spans) == len(ids)
    position = 0
    for number, (start, end) in zip(ids, spans, strict=True):
        between = text[position:start]
        assert between == "" or (between == " " and position > 0), (
            "a single space between two words"
        )
        if number < subwords.size:
            subword = subwords.subwords[number]
            assert lower(text[start:end]) in (subword, subword.removeprefix(MARK))
        else:
            assert end - start == 1
        position = end
    assert position == len(text)


@settings(max_examples=300)
@given(st.text("aB .\ufe4f\u0130", max_size=12))
def test_spans_keep_a_mark_of_the_text_apart_from_a_start_mark(text):
    for vocabulary in (
        tiny("a", " ", "."),
        tiny("a", " ", ".", MARK * 2, MARK + "a", "." + MARK, MARK * 2 + "."),
    ):
        spans = vocabulary.spans(text)
        assert len(spans) == len(vocabulary.encode(text))
        covered = "".join(text[start:end] for start, end in spans)
        assert covered == "".join(tokens(text))


def test_spans_point_into_the_text_as_it_was_written():
    vocabulary = tiny("h", "i", MARK + "hi", "y", "ou")
    assert vocabulary.spans("Hi  YOU") == [(0, 2), (2, 2), (2, 3), (3, 4), (4, 4), (4, 5), (5, 7)]
    assert vocabulary.spans("Hi HI") == [(0, 2), (3, 5)]
    assert vocabulary.spans("\u0130 hi") == [(0, 0), (0, 1), (2, 4)], (
        "U+0130 would be two characters in lower case"
    )
    assert vocabulary.spans("") == []


def ragged(vocabulary, texts, max_length=None):
    ids, lengths = vocabulary.encode_ragged(texts, max_length)
    assert ids.flags.writeable, "torch.from_numpy asks for it"
    assert ids.dtype == np.int32
    assert lengths.dtype == np.int32
    assert len(ids) == lengths.sum()
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] if len(texts) else []


@settings(max_examples=300)
@given(st.text(st.sampled_from("abc  ..\ufe4fé"), max_size=120), st.integers(1, 9))
def test_cut_ids_are_the_first_ones(text, max_length):
    for vocabulary in (
        tiny("a", "b", "c", " "),
        tiny("a", "ab", "abc", MARK + "a", MARK + ". ", "..", MARK + "ab"),
    ):
        whole = [vocabulary.encode(text), vocabulary.encode("a")]
        assert ragged(vocabulary, [text, "a"], max_length) == [ids[:max_length] for ids in whole]


@pytest.mark.parametrize("unit", ["zq", "日", " ", MARK, "word "])
def test_a_million_characters_are_neither_read_nor_kept_for_60_ids(subwords, unit, monkeypatch):
    vocabulary = Subwords(subwords.subwords)
    text = unit * (1_000_000 // len(unit))
    read = []

    def watched(text):
        read.append(len(text))
        return tokens(text)

    monkeypatch.setattr(module, "tokens", watched)
    assert ragged(vocabulary, [text], 60) == [vocabulary.encode(text[:5000])[:60]]
    assert read[0] < 2000
    assert sum(map(len, vocabulary._known)) < 100


def test_memory_of_known_tokens_is_bounded(subwords, monkeypatch):
    monkeypatch.setattr(module, "KNOWN_TOKENS", 10)
    vocabulary = Subwords(subwords.subwords, subwords.buckets)
    texts = [f"you{number} are {'x' * number}" for number in range(100)]
    assert ragged(vocabulary, texts * 2) == [subwords.encode(text) for text in texts * 2]
    assert 0 < len(vocabulary._known) <= 10


def test_pickled_vocabulary_is_equal_and_light(subwords):
    subwords.encode("How are you?")
    copy = pickle.loads(pickle.dumps(subwords))
    assert copy.fingerprint == subwords.fingerprint
    assert not copy._known
    assert copy.encode("How are you?") == subwords.encode("How are you?")


def test_frozen_classes_are_those_of_unicode():
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category != "Cn":
            # Between two letters a separator is a token of its own, the plain space excepted.
            assert (len(tokens(f"a{chr(code)}b")) > 1) == (category[0] in "PZ"), hex(code)


def test_only_ascii_letters_are_lowered():
    assert lower("HELLO Wörld ÄÖ İ ẞ \u212a \ud800Z") == "hello wörld ÄÖ İ ẞ \u212a \ud800z"


def zipf_corpus(words=3000, texts=4000):
    """Texts of made-up words with the frequencies of a language."""
    generator = random.Random(0)
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in "aeiou"]
    vocabulary = [
        "".join(generator.choices(syllables, k=generator.randint(1, 4))) for _ in range(words)
    ]
    weights = [1 / rank for rank in range(1, words + 1)]
    return [" ".join(generator.choices(vocabulary, weights, k=10)) + "." for _ in range(texts)]


def test_order_of_the_corpus_does_not_matter():
    texts = zipf_corpus(texts=300)
    assert (
        build_subwords(texts, minimum_count=3).subwords
        == build_subwords(texts[::-1], minimum_count=3).subwords
    )


def test_target_size_is_met_within_one_percent():
    texts = zipf_corpus()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built = build_subwords(iter(texts), target_size=300)
    assert abs(built.size - 300) <= 3


def test_closest_size_is_taken_with_a_warning():
    with pytest.warns(
        UserWarning, match=r"no minimum count gives 5000 .* the closest, 1, gives"
    ) as caught:
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
        *(
            (["hello"], {name: 0}, f"{name} is 0")
            for name in (
                "minimum_count",
                "target_size",
                "iterations",
                "max_bytes",
                "max_digits",
                "buckets",
            )
        ),
    ],
)
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


@settings(max_examples=50)
@given(st.lists(st.text(CHARACTERS), min_size=1).filter(any))
def test_a_corpus_comes_back_from_its_own_vocabulary(texts):
    built = build_subwords(texts, minimum_count=2)
    assert isinstance(built, Subwords)
    for text in texts:
        assert built.decode(built.encode(text)) == lower(text)
