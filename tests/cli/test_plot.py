"""`rejoinder lab plot`, from the command line to the exit code."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import rejoinder
from rejoinder.corpora.forms.examples import write_examples
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.lab.purity import neighbour_purity
from rejoinder.intents.reading.texts import read_intents
from rejoinder.training.loop import train
from tests.evaluation.fakes import Rule, knows_nothing, numbered_examples
from tests.training.tiny import recipe, write_data

VERB = ["lab", "plot"]

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

WORDS = ("abc abd abe", "lmn lmo lmp", "ponm oopp nonp")


class Letters(Rule, DualEncoder):
    """Encodes a text by how often it has each letter; responses by the negative of that, once it is fitted."""

    name = fingerprint = "letters"

    def __init__(self):
        super().__init__(knows_nothing)

    def encode_contexts(self, contexts):
        return np.array(
            [[context[-1].count(letter) for letter in "abcdlmnop"] for context in contexts],
            np.float32,
        )

    def encode_responses(self, responses):
        return -self.encode_contexts([[text] for text in responses])


class Fitted(Letters):
    def fit(self, examples, progress=None):
        progress(2 * len(examples))
        self.learned = len(examples)
        return {"examples": self.learned}


@pytest.fixture
def texts(tmp_path):
    """40 texts of three categories, made of words of their own; the third has fewer."""
    rng, kinds = np.random.default_rng(0), [0] * 15 + [1] * 15 + [2] * 10
    lines = [f'"{" ".join(rng.choice(WORDS[kind].split(), 4))}",kind_{kind}' for kind in kinds]
    path = tmp_path / "texts.csv"
    path.write_text("text,category\n" + "\n".join(rng.permutation(lines)) + "\n")
    return path


@pytest.fixture
def letters(monkeypatch, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "fitted").mkdir()
    kinds = {str(tmp_path / "letters"): Letters, str(tmp_path / "fitted"): Fitted}
    monkeypatch.setattr("rejoinder.encoders.open.load", lambda name, **_: kinds[name]())
    return tmp_path / "letters"


def test_models_side_by_side(command, texts, tmp_path, monkeypatch):
    """A model trained in the test beside one that counts letters."""
    train(recipe(write_data(tmp_path / "data")), tmp_path / "run")
    model, load = tmp_path / "run" / "model", rejoinder.load
    (tmp_path / "letters").mkdir()
    monkeypatch.setattr("rejoinder.lab.purity.NEIGHBOURS", 4)
    choose = lambda name, **_: Letters() if Path(name).name == "letters" else load(name)  # noqa: E731
    monkeypatch.setattr("rejoinder.encoders.open.load", choose)
    arguments = [
        f"DIRECT={model}",
        tmp_path / "letters",
        "--data",
        texts,
        "--perplexity",
        5,
    ]
    found = command(*arguments, "-o", tmp_path / "p.svg", "--json").json
    data = read_intents(texts)
    vectors = load(model).encode_contexts([[text] for text in data.texts])
    purity = neighbour_purity(vectors, [category for (category,) in data.labels], 4)
    assert found["models"][0] == {
        "title": "DIRECT",
        "model": str(model),
        "purity": pytest.approx(purity),
    }
    assert found["models"][1]["purity"] == 1.0
    svg = ET.fromstring((tmp_path / "p.svg").read_text())
    said = ["".join(each.itertext()).strip() for each in svg.iter() if each.tag.endswith("text")]
    assert {"DIRECT", "kind 0", "kind 1", "kind 2", "4-neighbour purity 100.0 %"} <= set(said)
    assert f"4-neighbour purity {100 * purity:.1f} %" in said
    before = (tmp_path / "p.svg").read_bytes()
    command(*arguments, "-o", tmp_path / "p.svg")
    assert (tmp_path / "p.svg").read_bytes() == before


@pytest.mark.usefixtures("letters")
def test_a_model_that_learns_is_fitted_first(command, refused, texts, tmp_path):
    write_examples(numbered_examples(20), tmp_path / "data" / "train-0.parquet")
    arguments = [tmp_path / "fitted", "--data", texts, "-o", tmp_path / "p.png", "--projection", "pca"]
    refused(*arguments, said="learns from examples before it encodes; name some with --fit-on DATA")
    assert "10-neighbour purity" in command(*arguments, "--fit-on", tmp_path / "data").out


def test_few_texts_are_drawn(command, texts, letters, tmp_path):
    command(letters, "--data", texts, "--sample", 12, "-o", tmp_path / "p.png")
    assert (tmp_path / "p.png").is_file()


def test_bad_input_gives_one_line_and_no_picture(refused, texts, letters, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for words, message in (
        ("bm25 -o p.png", "bm25 gives scores and no vectors"),
        ("MODEL -o p.jpg", "a picture's name ends in .png, .svg, .pdf"),
        ("MODEL -o p.png --projection umap", "umap: give one of tsne, pca"),
        ("MODEL -o p.png --categories kind_9", "there is no category 'kind_9'"),
        ("MODEL -o p.png --categories 1", "--categories 1: a picture needs 2 or more"),
        ("MODEL -o p.png --perplexity 40", "perplexity is 40; with 40 texts"),
        ("MODEL -o p.png --sample 10", "the purity of 10 neighbours needs more texts than these 10; give 11 or more"),
        ("=MODEL -o p.png", "write TITLE=MODEL"),
    ):
        refused(
            *(word.replace("MODEL", str(letters)) for word in words.split()),
            "--data",
            texts,
            said=message,
        )
    assert not list(tmp_path.glob("p.*"))
