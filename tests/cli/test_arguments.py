"""Baselines by name in `rejoinder evaluate`: what they learn from, what is shown, what is refused."""

import functools
import json
import re

import numpy as np
import pytest

import rejoinder
from rejoinder.cli import models
from rejoinder.cli.models import OpenRankers
from rejoinder.corpora.schema import Example
from rejoinder.corpora.forms.examples import write_examples
from rejoinder.encoders import multilingual, sentence
from rejoinder.lab.map import Map
from rejoinder.errors import InputError
from rejoinder.progress import silent
from tests.encoders.small import small_model

VERB = ["evaluate"]

SIZE = 16


class Rotated:
    """Rotated vectors: "q 7" and "a 7" are alike after a rotation."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.table = rng.standard_normal((400, SIZE)).astype(np.float32)
        self.turn = np.linalg.qr(rng.standard_normal((SIZE, SIZE)))[0].astype(np.float32)
        self.seen = []

    def __call__(self, texts):
        self.seen.extend(texts)
        rows = [
            self.table[int(text.split()[1])] @ (self.turn if text[0] == "a" else np.eye(SIZE))
            for text in texts
        ]
        return np.stack(rows).astype(np.float32)


@pytest.fixture
def minilm(monkeypatch):
    """Stands in for the real one, which takes seconds to open."""
    encode = Rotated()
    stand_in = sentence.SentenceEncoder(
        "minilm", functools.partial(sentence.encode_by_length, encode)
    )
    for opener in ("open_minilm", "open_sentence_transformer"):
        monkeypatch.setattr(sentence, opener, lambda *_: stand_in)
    monkeypatch.setattr(multilingual, "open_use", lambda: stand_in)
    return encode


@pytest.fixture
def folder(tmp_path):
    examples = [Example((f"q {i}",), f"a {i}", id=str(i)) for i in range(400)]
    write_examples(examples[:300], tmp_path / "data" / "train-0.parquet")
    write_examples(examples[300:], tmp_path / "data" / "test-0.parquet")
    return tmp_path / "data"


def test_all_baselines_in_one_table(command, folder, minilm):
    names = ["tfidf", "bm25", "bm25-data19", "sim:minilm", "map:minilm"]
    ended = command(*names, "--data", folder, "--candidates", 100, "--json")
    found = ended.json
    recall = {each["model"]: each["recall"]["1"]["value"] for each in found["results"]}
    assert list(recall) == names
    # the number is the one rare word that both share
    assert recall["tfidf"] == recall["bm25-data19"] == 1.0
    assert recall["map:minilm"] > 0.5 > 0.2 > recall["sim:minilm"]
    # each text once, for sim and map together
    assert len(minilm.seen) == len(set(minilm.seen)) == 800
    learned = {each["model"]: each for each in found["learned"]}
    assert list(learned) == ["tfidf", "bm25-data19", "map:minilm"]
    assert {(each["examples"], each["data"]) for each in learned.values()} == {
        (300, f"{folder} (test)")
    }
    curves = learned["map:minilm"]["curves"]
    assert len(curves) == 20
    assert max(curves[0]["recall_at_1"]) > 0
    assert "map:minilm: examples 300, similarity " in ended.err


def test_other_data_to_learn_from(command, refused, folder, tmp_path):
    alone = tmp_path / "test.jsonl"
    lines = (json.dumps({"context": [f"word{i}"], "response": f"word{i} yes"}) for i in range(9))
    alone.write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ("--data", alone, "--candidates", 9)
    code, _, err = command("bm25", "tfidf", *words)
    assert code == 2
    assert re.search("is ranked with its training part.*--fit-on", err)
    assert "Ranking" not in err  # refused before any ranking
    learned = command("bm25", "tfidf", *words, "--fit-on", folder, "--json").json["learned"]
    assert [each["examples"] for each in learned] == [300]
    refused("tfidf", *words, "--fit-on", alone)
    refused("tfidf", "--data", folder, "--split", "train", said="--split valid or test")
    assert command("bm25", *words).code == 0  # what learns nothing needs nothing


def test_sim_reads_the_newest_message_and_with_history_the_earlier_ones_too(minilm):
    rankers = OpenRankers()
    context, answers = ["q 3", "q 4", "q 5"], [["q 4", "q 9"]]
    sim, sim_history = rankers.ranker("sim:minilm"), rankers.ranker("sim-history:minilm")
    alone, with_history = (ranker.score([context], answers)[0, 0] for ranker in (sim, sim_history))
    short = sim_history.score([["q 5"]], answers)[0, 0]
    assert alone == short < with_history
    assert len(minilm.seen) == len(set(minilm.seen)) == 4  # each text once


def test_a_sentence_encoder_has_one_name_everywhere(minilm):
    rankers = OpenRankers()
    context, answers = ["q 3", "q 4"], [["q 4", "q 9"]]
    expected = rankers.ranker("sim:minilm").score([context], answers)
    for name in ("minilm", "use", "st:owner/name", "sim:st:owner/name"):
        assert (rankers.ranker(name).score([context], answers) == expected).all()
    assert (
        rankers.identity("sim:st:owner/name")
        == f"sim:st:owner/name of rejoinder {rejoinder.__version__}"
    )
    assert len(minilm.seen) == 6, "three sentence, each opened once"


def test_our_own_models_by_h_and_by_r(tmp_path):
    model = small_model(tmp_path / "model")
    contexts, lists = [["hello you", "abc"], ["number 7"]], [["reply", "abc"], ["number", "x"]]
    rankers, folder = OpenRankers(), tmp_path / "model"
    names = (f"sim:{folder}", f"sim:{folder}#h", f"sim:{folder}#r", f"map:{folder}#r")
    h, also_h, r, mapped = (rankers.ranker(name) for name in names)
    assert np.allclose(h.score(contexts, lists), model.score(contexts, lists), atol=1e-5)
    assert np.allclose(also_h.score(contexts, lists), model.score(contexts, lists), atol=1e-5)
    vectors = model.transfer(["abc", "reply"])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert r.score([["abc"]], [["reply"]])[0, 0] == pytest.approx(unit[0] @ unit[1], abs=1e-5)
    assert isinstance(mapped, Map)
    assert mapped.encoder is r


def test_wrong_names(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name, message in (
        (
            "map:minilmm",
            "no model 'minilmm': give a model folder .*, convert-small, .* minilm, use, e5, or st:NAME",
        ),
        ("map:", "no model ''"),
        ("sim:FOLDER#x", "a model has .*#h and .*#r, no #x"),
        ("sim:nowhere/model#r", "no model folder nowhere/model|could not be fetched"),
        ("tfidff", "no model 'tfidff': .*tfidf, sim:NAME, map:NAME or hybrid:NAME"),
    ):
        with pytest.raises(InputError, match=message):
            OpenRankers().ranker(name.replace("FOLDER", str(tmp_path)))


def test_a_sample_is_of_the_validation_split_and_bounded(tmp_path, monkeypatch):
    for split in ("train", "valid"):
        examples = [Example((f"{split} {i}?",), f"{split}.") for i in range(20)]
        write_examples(examples, tmp_path / f"{split}-0.parquet")
    monkeypatch.setattr(models, "EXAMPLES", 7)
    drawn = models.read_sample(tmp_path, silent)
    assert [example.response for example in drawn] == ["valid."] * 7
    assert drawn == models.read_sample(tmp_path, silent)
    assert len(models.read_sample(tmp_path / "train-0.parquet", silent)) == 7
