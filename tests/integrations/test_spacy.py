"""The component in a pipeline of spaCy's own, saved and loaded with it."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from rejoinder.encoders.open import open_texts
from rejoinder.intents.classifier import IntentClassifier, train_classifier
from rejoinder.intents.data import TrainingTexts
from rejoinder.intents.folder import save_classifier
from tests.intents.toy import outside_texts, toy_data

pytest.importorskip("spacy")
pytest.importorskip("sklearn")
import spacy

from rejoinder.integrations.spacy import IntentComponent

TEXTS = [*toy_data(3, seed=1).texts, *outside_texts(3, seed=1)]


@pytest.mark.parametrize("outside", [(), outside_texts(16)])
def test_intents_become_categories(outside, model, tmp_path):
    classifier = train_classifier(open_texts(model), TrainingTexts(toy_data(10), oos_texts=outside))
    save_classifier(classifier, tmp_path / "intents")
    nlp = spacy.blank("en")
    nlp.add_pipe("rejoinder_intents", config={"classifier": str(tmp_path / "intents")})
    nlp.to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    for doc, told in zip(nlp.pipe(TEXTS, batch_size=4), classifier.predict(TEXTS), strict=True):
        labels = told.labels or ("oos",)
        assert max(doc.cats, key=doc.cats.get) == labels[0]
        assert {label: doc.cats[label] for label, _ in told.ranking} == pytest.approx(
            dict(told.ranking), abs=1e-5
        )
        assert ("oos" in doc.cats) == bool(outside)
    assert list(nlp(TEXTS[0]).cats) == list(nlp(TEXTS[0]).cats)
    assert nlp(" ").cats == {}


def test_spacy_finds_the_component_by_its_entry_point():
    project = tomllib.loads(
        (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    )["project"]
    ((name, place),) = project["entry-points"]["spacy_factories"].items()
    assert EntryPoint(name, place, "spacy_factories").load() is IntentComponent


def test_a_saved_pipeline_has_the_classifier_scores_and_leaves_other_categories(model, tmp_path):
    classifier = train_classifier(open_texts(model), TrainingTexts(toy_data(10)))
    save_classifier(classifier, tmp_path / "intents")
    nlp = spacy.blank("en")

    @spacy.Language.component("other_categories")
    def other(doc):
        doc.cats = {"urgent": 1.0}
        return doc

    nlp.add_pipe("other_categories")
    component = nlp.add_pipe("rejoinder_intents", config={"classifier": str(tmp_path / "intents")})
    assert component.labels == tuple(classifier.labels)
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "intents").rename(tmp_path / "gone")
    loaded = spacy.load(tmp_path / "pipeline")
    text = toy_data(3, seed=1).texts[0]
    assert loaded(text).cats == nlp(text).cats
    assert loaded(text).cats["urgent"] == 1.0
    data = toy_data(3, seed=1)
    examples = [
        spacy.training.Example.from_dict(
            nlp.make_doc(text), {"cats": {name: float(name in labels) for name in classifier.labels}}
        )
        for text, labels in zip(data.texts, data.labels, strict=True)
    ]
    scores = loaded.evaluate(examples)
    right = [found.labels[0] == labels[0] for found, labels in zip(classifier.predict(list(data.texts)), data.labels, strict=True)]
    assert scores["cats_micro_f"] == pytest.approx(sum(right) / len(right), abs=0.2)


@pytest.fixture
def pipeline(model, tmp_path):
    """A pipeline with a classifier, whose folder is beside it."""
    classifier = train_classifier(open_texts(model), TrainingTexts(toy_data(10)))
    save_classifier(classifier, tmp_path / "intents")
    return new_pipeline(tmp_path)


def new_pipeline(folder):
    nlp = spacy.blank("en")
    nlp.add_pipe("rejoinder_intents", config={"classifier": str(folder / "intents")})
    return nlp


def test_a_pipeline_in_bytes_has_the_classifier(pipeline, tmp_path):
    told = pipeline(TEXTS[0]).cats
    written = pipeline.to_bytes()
    (tmp_path / "intents").rename(tmp_path / "gone")
    assert new_pipeline(tmp_path).from_bytes(written)(TEXTS[0]).cats == told


def test_a_handler_of_errors_gets_the_batch_that_failed(pipeline, monkeypatch):
    predict = IntentClassifier.predict

    def fail(classifier, texts):
        if "bad" in texts:
            raise ValueError("it is bad")
        return predict(classifier, texts)

    monkeypatch.setattr(IntentClassifier, "predict", fail)
    with pytest.raises(ValueError, match="it is bad"):
        list(pipeline.pipe(["bad"]))
    failed = []
    pipeline.set_error_handler(
        lambda name, _, docs, error: failed.append((name, [doc.text for doc in docs], str(error)))
    )
    told = [doc.text for doc in pipeline.pipe(["soon", "late", "bad", "sad", "never"], batch_size=2)]
    assert told == ["soon", "late", "never"]
    assert failed == [("rejoinder_intents", ["bad", "sad"], "it is bad")]
