"""Vocabulary and token stores: made once, and never a stale one."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rejoinder.corpora.build import build_data
from rejoinder.corpora.example import Example
from rejoinder.corpora.examples import write_examples
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError
from rejoinder.text.tokenizer import Tokenizer
from rejoinder.training import prepare as prepare_module
from rejoinder.training.display import Silent
from rejoinder.training.prepare import Prepared, prepare
from rejoinder.training.recipe import Vocabulary
from tests.models.tiny_transformer import SHAPE
from tests.training.tiny import MODEL, recipe, write_data


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def made(examples: Path, folder: Path, **sections: object) -> Prepared:
    return prepare(recipe(examples, **sections), folder)


def test_a_model_that_reads_more_than_the_data_holds_is_told(tmp_path: Path) -> None:
    (tmp_path / "chats.jsonl").write_text(json.dumps({"turns": [f"turn {number}" for number in range(9)]}) + "\n")
    single, three = dict(MODEL), {**MODEL, "history": 3}
    whole = {"kind": "masked-lm", **SHAPE}
    for history, told in ((2, (three, whole)), (3, (whole,)), (None, ())):
        place = tmp_path / f"data-{history}"
        build_data("jsonl", [f"train={tmp_path / 'chats.jsonl'}"], place, reading=Reading(history=history))
        for model in (single, three, whole):
            display = Notes()
            kind = "bpe" if model is whole else "subwords"
            vocabulary = {"kind": kind} | ({"merges": 9} if model is whole else {"minimum_count": 1})
            sections = {"model": model, "vocabulary": vocabulary, "validation": {"examples": 0}}
            prepare(recipe(place, **sections), tmp_path / "tokens", display)
            lost = [note for note in display.notes if "contexts lost their oldest messages" in note]
            assert len(lost) == (model in told), (history, model)
            assert all(f"(--history {history})" in note and str(place) in note for note in lost)


def test_a_second_time_nothing_is_built(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made(data, tmp_path)
    monkeypatch.setattr(prepare_module, "build_store", None)
    monkeypatch.setattr(prepare_module, "build_vocabulary", None)
    again = made(data, tmp_path)
    assert again.tokenizer.fingerprint == first.tokenizer.fingerprint
    assert again.train.input.ids.tolist() == first.train.input.ids.tolist()


def test_changed_examples_of_the_same_name_are_read_again(tmp_path: Path) -> None:
    data, cache = write_data(tmp_path / "data"), tmp_path / "cache"
    before = made(data, cache)
    shutil.rmtree(data)
    write_data(data, seed=1)
    after = made(data, cache)
    assert after.digest != before.digest
    assert after.train.response.ids.tolist() != before.train.response.ids.tolist()
    assert after.train.response.ids.tolist() == made(data, tmp_path / "fresh").train.response.ids.tolist()


def test_another_length_or_vocabulary_makes_another_store(tmp_path: Path, data: Path) -> None:
    whole = made(data, tmp_path)
    short = made(data, tmp_path, text={"max_length": 2})
    other = made(data, tmp_path, vocabulary={"minimum_count": 40})
    assert max(short.train.input.gather(range_of(short))[1]) == 2
    assert short.tokenizer.fingerprint == whole.tokenizer.fingerprint != other.tokenizer.fingerprint
    ids, lengths = other.train.input.gather(range_of(other))
    assert other.tokenizer.decode(ids[: lengths[0]].tolist()) == whole.tokenizer.decode(
        whole.train.input.gather(range_of(whole))[0][: whole.train.input.offsets[1]].tolist()
    )


def range_of(prepared: Prepared) -> object:
    import numpy as np

    return np.arange(len(prepared.train))


def test_the_cache_may_be_shared_between_runs(tmp_path: Path, data: Path) -> None:
    made(data, tmp_path / "run", data={"train": str(data), "cache": str(tmp_path / "cache")})
    assert not (tmp_path / "run").exists()
    names = sorted(path.name.partition("-")[0] + path.suffix for path in (tmp_path / "cache").iterdir())
    assert names == ["train", "valid", "vocabulary.json", "vocabulary.sha256"]


def test_a_vocabulary_that_was_altered_is_not_read(tmp_path: Path, data: Path) -> None:
    made(data, tmp_path)
    vocabulary = next(tmp_path.glob("vocabulary-*.json"))
    vocabulary.write_text(vocabulary.read_text().replace("e", "f"))
    with pytest.raises(InputError, match=r"vocabulary-\w+\.json was altered after it was written; delete it"):
        made(data, tmp_path)


def test_two_that_need_the_same_cache_make_it_once(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one comes while the first one tokenises: it waits, and takes what is there then."""
    waiting, built = threading.Event(), []
    real = prepare_module.build_store

    def slow(path: Path, *given: Any, **options: Any) -> Any:
        built.append(path)
        waiting.set()
        time.sleep(0.3)
        return real(path, *given, **options)

    monkeypatch.setattr(prepare_module, "build_store", slow)
    first = threading.Thread(target=made, args=(data, tmp_path))
    first.start()
    assert waiting.wait(60)
    made(data, tmp_path)
    first.join()
    assert len(built) == len(set(built)) == 2


def test_the_vocabulary_is_of_the_training_split_alone(tmp_path: Path) -> None:
    for split, word in (("train", "zebra"), ("valid", "quokka")):
        write_examples([Example((word,), word)] * 50, tmp_path / "data" / f"{split}-0.parquet")
    tokenizer = made(tmp_path / "data", tmp_path / "tokens", vocabulary={"minimum_count": 2}).tokenizer
    assert len(tokenizer.encode("zebra")) < len(tokenizer.encode("quokka"))


def test_a_sample_counts_about_as_many_utterances(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    build = prepare_module.build_vocabulary

    def counting(config: Vocabulary, texts: Iterable[str]) -> Tokenizer:
        kept = list(texts)
        counted.append(len(kept))
        return build(config, kept)

    monkeypatch.setattr(prepare_module, "build_vocabulary", counting)
    made(data, tmp_path / "a", vocabulary={"minimum_count": 5, "sample": 640})
    made(data, tmp_path / "b", vocabulary={"minimum_count": 5, "sample": 100})
    assert counted[0] == 640
    assert 60 < counted[1] < 140


def test_missing_data_is_refused(tmp_path: Path, data: Path) -> None:
    with pytest.raises(InputError, match="give --data DIR"):
        made(Path(), tmp_path, data={})
    with pytest.raises(InputError, match="no such file or folder"):
        made(tmp_path / "nothing", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="train-"):
        made(tmp_path / "empty", tmp_path)
    only = tmp_path / "only"
    only.mkdir()
    shutil.copy(data / "train-00000.parquet", only)
    with pytest.raises(InputError, match="valid-"):
        made(only, tmp_path)
    assert made(only, tmp_path, validation={"examples": 0}).valid is None


def test_no_training_examples_are_refused(tmp_path: Path) -> None:
    for split in ("train", "valid"):
        write_examples([Example(("",), "")], tmp_path / "data" / f"{split}-0.parquet")
    with pytest.raises(InputError, match=r"no training examples|no text|empty"):
        made(tmp_path / "data", tmp_path / "tokens", vocabulary={"minimum_count": 1})


def test_a_vocabulary_that_misses_its_size_is_noted(tmp_path: Path, data: Path) -> None:
    notes: list[str] = []

    class Noting(Silent):
        def note(self, text: str) -> None:
            notes.append(text)

    prepare(recipe(data, vocabulary={"target_size": 50_000}), tmp_path, Noting())
    assert len(notes) == 1
    assert "50,000" in notes[0] or "50000" in notes[0]
