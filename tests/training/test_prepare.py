"""Vocabulary and token stores: made once, and never a stale one."""

import json
import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import rejoinder
from rejoinder.corpora.build import build_data
from rejoinder.corpora.example import Example
from rejoinder.corpora.examples import write_examples
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError
from rejoinder.text.subwords import MARK, Subwords
from rejoinder.training import prepare as prepare_module
from rejoinder.training.display import Display
from rejoinder.training.loop import train
from rejoinder.training.prepare import prepare, word_vectors
from tests.models.tiny_transformer import SHAPE
from tests.training.tiny import MODEL, recipe, stage


class Notes(Display):
    def __init__(self):
        self.notes: list[str] = []

    def note(self, text):
        self.notes.append(text)


def made(examples, folder, **sections):
    return prepare(recipe(examples, **sections), folder)


def test_a_model_that_reads_more_than_the_data_holds_is_told(tmp_path):
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


def test_another_length_or_vocabulary_makes_another_store(tmp_path, data):
    whole = made(data, tmp_path)
    short = made(data, tmp_path, text={"max_length": 2})
    other = made(data, tmp_path, vocabulary={"minimum_count": 40})
    assert max(short.train.input.gather(np.arange(320))[1]) == 2
    assert short.tokenizer.fingerprint == whole.tokenizer.fingerprint != other.tokenizer.fingerprint
    ids, lengths = other.train.input.gather(np.arange(320))
    assert other.tokenizer.decode(ids[: lengths[0]].tolist()) == whole.tokenizer.decode(
        whole.train.input.gather(np.arange(320))[0][: whole.train.input.offsets[1]].tolist()
    )


def test_a_shared_cache_is_filled_once(tmp_path, data, monkeypatch):
    cached = {"data": {"train": str(data), "cache": str(tmp_path / "cache")}}
    first = made(data, tmp_path / "run", **cached)
    assert not (tmp_path / "run").exists()
    names = sorted(path.name.partition("-")[0] + path.suffix for path in (tmp_path / "cache").iterdir())
    assert names == ["train", "valid", "vocabulary.json"]
    monkeypatch.setattr(prepare_module, "build_store", None)
    monkeypatch.setattr(prepare_module, "build_vocabulary", None)
    again = made(data, tmp_path / "run", **cached)
    assert again.train.input.ids.tolist() == first.train.input.ids.tolist()


def test_two_that_need_the_same_cache_make_it_once(tmp_path, data, monkeypatch):
    """The second one comes while the first one tokenises: it waits, and takes what is there then."""
    waiting, built = threading.Event(), []
    real = prepare_module.build_store

    def slow(path, *given, **options):
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


def test_the_vocabulary_is_of_the_training_split_alone(tmp_path):
    for split, word in (("train", "zebra"), ("valid", "quokka")):
        write_examples([Example((word,), word)] * 50, tmp_path / "data" / f"{split}-0.parquet")
    tokenizer = made(tmp_path / "data", tmp_path / "tokens", vocabulary={"minimum_count": 2}).tokenizer
    assert len(tokenizer.encode("zebra")) < len(tokenizer.encode("quokka"))


def test_a_sample_counts_about_as_many_utterances(tmp_path, data, monkeypatch):
    counted = []
    build = prepare_module.build_vocabulary

    def counting(config, texts):
        kept = list(texts)
        counted.append(len(kept))
        return build(config, kept)

    monkeypatch.setattr(prepare_module, "build_vocabulary", counting)
    made(data, tmp_path / "a", vocabulary={"minimum_count": 5, "sample": 640})
    made(data, tmp_path / "b", vocabulary={"minimum_count": 5, "sample": 100})
    assert counted[0] == 640
    assert 60 < counted[1] < 140


def test_missing_data_is_refused(tmp_path, data):
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
    assert made(only, tmp_path, validation={"examples": 0}).valid == {}


def test_no_training_examples_are_refused(tmp_path):
    for split in ("train", "valid"):
        write_examples([Example(("",), "")], tmp_path / "data" / f"{split}-0.parquet")
    with pytest.raises(InputError, match=r"no training examples|no text|empty"):
        made(tmp_path / "data", tmp_path / "tokens", vocabulary={"minimum_count": 1})


# --- An embedding of a sentence encoder's vectors ---------------------------------------------------------------------

WORDS = Subwords([MARK, MARK + "yes", MARK + "no", "ing", MARK + "the"], buckets=3)
SIZE = 3


def encode(texts):
    """Vectors of six numbers that depend on the text alone."""
    return np.stack([np.random.default_rng(list(text.encode())).normal(size=6) for text in texts]).astype(np.float32)


def test_components_keep_the_weighted_inner_products_as_well_as_three_numbers_can():
    counts = np.array([5, 20, 30, 2, 10_000, 0, 0, 0, 0])
    table = word_vectors(encode, WORDS, counts, SIZE)
    full = word_vectors(encode, WORDS, counts, 6)
    shares = (counts[:5] + 0.5) / (counts[:5] + 0.5).sum()
    centred = encode([" ", "yes", "no", "ing", "the"]).astype(np.float64)
    centred = (centred - shares @ centred) * (1e-3 / (1e-3 + shares))[:, None]
    products = centred @ centred.T
    given = full[:5].astype(np.float64) @ full[:5].T.astype(np.float64)
    assert np.allclose(given / given[0, 0], products / products[0, 0], rtol=1e-4)  # nothing but a rotation and a factor
    left = shares @ ((full[:5, SIZE:]) ** 2).sum(axis=1)
    for seed in range(20):  # no other three directions lose less
        directions, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(6, SIZE)))
        lost = full[:5] - full[:5] @ directions @ directions.T
        assert left <= shares @ (lost**2).sum(axis=1) + 1e-9
    assert np.isclose((table[:5] ** 2).mean(), 1.0, atol=1e-5)


def test_a_run_starts_from_them_and_computes_them_once(tmp_path, data, monkeypatch):
    calls = []

    def opened(name):
        calls.append(name)
        return SimpleNamespace(encode_responses=lambda texts, **_: encode(texts))

    monkeypatch.setattr(prepare_module, "open_encoder", opened)
    settings = {"init": {"words": "some encoder"}, "model": {**MODEL, "embedding_size": 6}}
    wanted = recipe(data, **settings)
    first, again = prepare(wanted, tmp_path / "tokens"), prepare(wanted, tmp_path / "tokens")
    assert calls == ["some encoder"]
    assert np.array_equal(first.words, again.words)
    frozen = [stage(rates={"embedding": 0.0}, steps=1)]
    summary = train(recipe(data, **settings, stage=frozen, validation={"examples": 0}), tmp_path / "run")
    weights = rejoinder.load(summary.model, precision="fp32").module.embedding.weight.numpy()
    assert np.array_equal(weights, first.words)
