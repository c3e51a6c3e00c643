"""Vocabulary files: what is written is what is read, and nothing else is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rejoinder.errors import InputError
from rejoinder.text.subwords import MARK, Subwords
from rejoinder.text.vocabulary import build_subwords

CORPUS = ["line one\nline two\r\nline\u2028three\u0085", 'odd \x00 \ufeff \ufe4f " \\ \ufffe 😀 \x1f characters']


def test_file_gives_the_same_vocabulary_back(tmp_path: Path) -> None:
    built = build_subwords(CORPUS, minimum_count=1, buckets=17)
    built.save(tmp_path / "vocabulary.json")
    loaded = Subwords.load(tmp_path / "vocabulary.json")
    assert loaded.subwords == built.subwords
    assert loaded.buckets == 17
    assert loaded.fingerprint == built.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary.json"]


def test_newline_in_the_corpus_survives_the_file(tmp_path: Path) -> None:
    built = build_subwords(CORPUS, minimum_count=1)
    assert any("\n" in subword for subword in built.subwords)
    built.save(tmp_path / "vocabulary.json")
    loaded = Subwords.load(tmp_path / "vocabulary.json")
    for text in CORPUS:
        assert loaded.encode(text) == built.encode(text)
        assert loaded.decode(loaded.encode(text)) == text


def test_json_values_give_the_same_vocabulary_back() -> None:
    built = build_subwords(CORPUS, minimum_count=2)
    assert Subwords.from_json(json.loads(json.dumps(built.to_json()))).fingerprint == built.fingerprint


def test_fingerprint_tells_contents_apart() -> None:
    vocabularies = [
        Subwords([MARK, "a", "b"]),
        Subwords([MARK, "b", "a"]),
        Subwords([MARK, "ab"]),
        Subwords([MARK, "a", "b"], buckets=999),
    ]
    assert len({vocabulary.fingerprint for vocabulary in vocabularies}) == 4
    assert Subwords([MARK, "a", "b"]).fingerprint == vocabularies[0].fingerprint
    assert vocabularies[0].fingerprint == "74060028d6e50a3b6d03b1e5a616801808a59633bea4ee24867d4008b3d353e9"


GOOD: dict[str, Any] = {"format": "rejoinder subwords 1", "buckets": 5, "subwords": [MARK, "a"]}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": "other"}, "format"),
        ({"buckets": 0}, "buckets"),
        ({"buckets": True}, "buckets"),
        ({"buckets": "5"}, "buckets"),
        ({"subwords": None}, "list of strings"),
        ({"subwords": [MARK, 3]}, "list of strings"),
        ({"subwords": []}, "start mark"),
        ({"subwords": ["a"]}, "start mark"),
        ({"subwords": [MARK, ""]}, "empty"),
        ({"subwords": [MARK, "a", "a"]}, "twice"),
        ({"subwords": [MARK, "\ud800"]}, "UTF-8"),
    ],
)
def test_bad_content_is_refused_with_its_reason(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_text(json.dumps(GOOD))
    assert Subwords.load(path).size == 2
    path.write_text(json.dumps(GOOD | change))
    with pytest.raises(InputError, match=reason) as caught:
        Subwords.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"\x00\xff\x80", b'{"format": "rejoinder subwords 1", "sub', b"[1]", b"null", b"[" * 100_000]
)
def test_bad_bytes_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a vocabulary") as caught:
        Subwords.load(path)
    assert "\n" not in str(caught.value)


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(InputError, match="cannot read the vocabulary"):
            Subwords.load(path)
