"""Vocabulary files: what is written is what is read, and nothing else is read."""

import json

import pytest

from rejoinder.errors import InputError
from rejoinder.text.ngrams import NGrams
from rejoinder.text.subwords import MARK, Subwords
from rejoinder.text.vocabulary_building import build_subwords

CORPUS = [
    "line one\nline two\r\nline\u2028three\u0085",
    'odd \x00 \ufeff \ufe4f " \\ \ufffe 😀 \x1f characters',
]
SUBWORDS = {"format": Subwords.FORMAT, "buckets": 5, "subwords": [MARK, "a"]}
NGRAMS = {
    "format": NGrams.FORMAT,
    "buckets": 3,
    "unigrams": ["<S>", "</S>", "a"],
    "bigrams": [0, 2],
}


def test_newline_in_the_corpus_survives_the_file(tmp_path):
    built = build_subwords(CORPUS, minimum_count=1)
    assert any("\n" in subword for subword in built.subwords)
    built.save(tmp_path / "vocabulary.json")
    loaded = Subwords.load(tmp_path / "vocabulary.json")
    for text in CORPUS:
        assert loaded.encode(text) == built.encode(text)
        assert loaded.decode(loaded.encode(text)) == text


def test_fingerprint_tells_contents_apart():
    vocabularies = [
        Subwords([MARK, "a", "b"]),
        Subwords([MARK, "b", "a"]),
        Subwords([MARK, "ab"]),
        Subwords([MARK, "a", "b"], buckets=999),
    ]
    assert len({vocabulary.fingerprint for vocabulary in vocabularies}) == 4
    assert Subwords([MARK, "a", "b"]).fingerprint == vocabularies[0].fingerprint
    assert (
        vocabularies[0].fingerprint
        == "74060028d6e50a3b6d03b1e5a616801808a59633bea4ee24867d4008b3d353e9"
    )


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        (Subwords, {"format": NGrams.FORMAT}, "format 'rejoinder subwords 1' is needed"),
        (Subwords, {"buckets": True}, "buckets"),
        (Subwords, {"subwords": None}, "list of strings"),
        (Subwords, {"subwords": ["a"]}, "start mark"),
        (Subwords, {"subwords": [MARK, ""]}, "empty"),
        (Subwords, {"subwords": [MARK, "a", "a"]}, "twice"),
        (Subwords, {"subwords": [MARK, "\ud800"]}, "UTF-8"),
        (NGrams, {"format": Subwords.FORMAT}, "format 'rejoinder n-grams 1' is needed"),
        (NGrams, {"buckets": 0}, "at least 1 is needed"),
        (NGrams, {"unigrams": ["<S>", "x", "a"]}, "mark </S> is not among the unigrams"),
        (NGrams, {"unigrams": ["<S>", "</S>", "a", "a"]}, "the unigram 'a' is there twice"),
        (NGrams, {"bigrams": [1]}, "two for each pair"),
        (NGrams, {"bigrams": [1, 5]}, "numbers of unigrams, 0 to 2"),
        (NGrams, {"bigrams": [1, 2, 1, 2]}, "a bigram is there twice"),
    ],
)
def test_bad_content_is_refused_with_its_reason(tmp_path, kind, change, reason):
    path, whole = tmp_path / "vocabulary.json", SUBWORDS if kind is Subwords else NGRAMS
    path.write_text(json.dumps(whole))
    kind.load(path)
    path.write_text(json.dumps(whole | change))
    with pytest.raises(InputError, match=reason) as caught:
        kind.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [Subwords, NGrams])
def test_bad_and_missing_files_are_refused(tmp_path, kind):
    path = tmp_path / "vocabulary.json"
    for content in (
        b"",
        b"\x00\xff\x80",
        b'{"format": "rejoinder sub',
        b"[1]",
        b"null",
        b"[" * 100_000,
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match="not a vocabulary") as caught:
            kind.load(path)
        assert "\n" not in str(caught.value)
    for missing in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(InputError, match="cannot read the vocabulary"):
            kind.load(missing)
