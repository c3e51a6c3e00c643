"""Transformer and classifier in scikit-learn's own hands."""

import pickle

import numpy as np
import pytest

from rejoinder.arrays import unit_rows
from rejoinder.encoders.open import open_texts
from rejoinder.encoders.persistence import load
from rejoinder.encoders.sentence import SentenceEncoder
from rejoinder.errors import InputError
from tests.frames import DataFrame
from tests.intents.toy import outside_texts, toy_data

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

from rejoinder.integrations.sklearn import RejoinderEncoder, RejoinderIntents

DATA = toy_data(10)
LABELS = [names[0] for names in DATA.labels]
TEST = toy_data(10, seed=1)


class OfNumbers:
    """Writes the rows of numbers that scikit-learn's checks hand over as texts."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string, tags.input_tags.one_d_array = (
            True,
            False,
            False,
        )
        return tags

    def fit(self, X, y=None):  # noqa: N803
        rows, y = (
            (validate_data(self, X), y)
            if isinstance(self, RejoinderEncoder)
            else validate_data(self, X, y)
        )
        return super().fit(written(rows), y)

    def later(self, rows):
        check_is_fitted(self)
        return written(validate_data(self, rows, reset=False))


class EncoderOfNumbers(OfNumbers, RejoinderEncoder):
    def transform(self, X):  # noqa: N803
        return super().transform(self.later(X))


class IntentsOfNumbers(OfNumbers, RejoinderIntents):
    def predict(self, X):  # noqa: N803
        return super().predict(self.later(X))

    def predict_proba(self, X):  # noqa: N803
        return super().predict_proba(self.later(X))


def written(rows):
    return [" ".join(map(str, row)) for row in rows.tolist()]


class Numbers(SentenceEncoder):
    """Reads the numbers of a text."""

    def encode(self, texts, _advance=None):
        return np.array([[*map(float, text.split()), 3.0] for text in texts], dtype=np.float32)


@pytest.mark.parametrize("kind", [EncoderOfNumbers, IntentsOfNumbers])
def test_scikit_learns_own_checks(kind, monkeypatch):
    """All pass on rows of numbers that are written as texts, but for one that needs a setting of scipy's."""
    numbers = Numbers("numbers", encode=None, size=3)
    monkeypatch.setattr("rejoinder.integrations.sklearn.open_all", lambda *_: numbers)
    found = check_estimator(kind(), on_skip=None)
    assert len(found) > 35
    open_checks = {each["check_name"] for each in found if each["status"] != "passed"}
    assert open_checks <= {"check_array_api_input"}  # scikit-learn has it since 1.9


@pytest.mark.parametrize("kind", [RejoinderEncoder, RejoinderIntents])
def test_scikit_learn_is_told_that_texts_are_read(kind, model):
    # none of its checks has texts
    with pytest.warns(SkipTestWarning, match=r"two_d_array=False.*string=True"):
        assert [each["status"] for each in check_estimator(kind(model))] == ["passed"]


def test_vectors_are_the_encoders(model):
    encoder = RejoinderEncoder(model, vectors="both")
    found = encoder.fit_transform(np.array(DATA.texts))
    np.testing.assert_allclose(
        found, unit_rows(open_texts(model, "both").encode(DATA.texts)), atol=1e-6
    )
    assert encoder.n_features_out_ == found.shape[1] == len(encoder.get_feature_names_out())
    assert encoder.set_params(normalize=False).transform(DATA.texts).shape == found.shape
    assert RejoinderEncoder(model, also=[model]).fit_transform(list(DATA.texts)).shape[1] == 128


def test_conversations_are_read_with_their_history(history_model):
    chats = [
        ["hi", "my card is gone"],
        ["what is the weather", "my card is gone"],
        "my card is gone",
    ]
    found = RejoinderEncoder(history_model, vectors="h").fit_transform(chats)
    np.testing.assert_allclose(
        found, load(history_model).encode_contexts([*chats[:2], chats[2:]]), atol=1e-6
    )
    assert not np.allclose(found[0], found[1])
    with pytest.raises(InputError, match=r'item 0 is not a text but list; .* vectors="h"'):
        RejoinderEncoder(history_model).fit(chats)


def test_it_works_in_a_pipeline(model):
    pipeline = make_pipeline(RejoinderEncoder(model), LogisticRegression(C=30))
    assert pipeline.fit(DATA.texts, LABELS).score(TEST.texts, LABELS) > 0.35
    assert cross_val_score(pipeline, np.array(DATA.texts), LABELS, cv=2).mean() > 0.3
    search = GridSearchCV(
        Pipeline([("encode", RejoinderEncoder(model)), ("classify", LogisticRegression())]),
        {"encode__vectors": ["r", "h"], "classify__C": [1, 30]},
        cv=2,
        error_score="raise",
    )
    assert search.fit(np.array(DATA.texts), LABELS).best_params_["encode__vectors"] in ("r", "h")


def test_intents_are_learned_and_what_has_none_is_refused(model):
    numbers = [sorted(set(LABELS)).index(label) for label in LABELS]
    plain = RejoinderIntents(model).fit(DATA.texts, numbers)  # labels of any type
    assert plain.score(TEST.texts, numbers) > 0.35
    assert plain.predict_proba(TEST.texts).shape == (40, 4)
    assert (
        plain.classes_[plain.predict_proba(TEST.texts).argmax(axis=1)] == plain.predict(TEST.texts)
    ).all()

    outside = outside_texts(16)
    refusing = RejoinderIntents(model).fit(
        [*DATA.texts, *outside], [*LABELS, *["oos"] * len(outside)]
    )
    assert "oos" in refusing.predict([*outside_texts(16, seed=1), *TEST.texts])
    assert not hasattr(refusing, "predict_proba")
    search = GridSearchCV(
        RejoinderIntents(model), {"strength": [0.1, 30.0]}, cv=2, error_score="raise"
    )
    assert search.fit(np.array(DATA.texts), LABELS).score(TEST.texts, LABELS) > 0.35
    with pytest.raises(
        ValueError, match=r"one class \(one\) teach nothing; give texts of two or more intents"
    ):
        RejoinderIntents(model).fit(DATA.texts, ["one"] * len(DATA))


@pytest.mark.parametrize("kind", [RejoinderEncoder, RejoinderIntents])
def test_a_pickled_copy_opens_its_encoder_again(kind, model):
    fitted = kind(model).fit(DATA.texts, LABELS)
    copy = pickle.loads(pickle.dumps(fitted))
    use = "transform" if kind is RejoinderEncoder else "predict"
    np.testing.assert_array_equal(getattr(copy, use)(DATA.texts), getattr(fitted, use)(DATA.texts))
    copy.fingerprint_ = "another"
    with pytest.raises(InputError, match="is not the encoder that was fitted"):
        getattr(copy, use)(DATA.texts)


def test_a_generator_is_read_once(model):
    texts = DATA.texts[:2]
    encoder = RejoinderEncoder(model)
    wanted = encoder.fit(texts).transform(texts)
    np.testing.assert_array_equal(encoder.fit_transform(text for text in texts), wanted)
    np.testing.assert_array_equal(make_pipeline(encoder).fit_transform(iter(texts)), wanted)


def test_what_is_wrong_is_named(model):
    encoder = RejoinderEncoder(model)
    with pytest.raises(NotFittedError):
        encoder.transform(DATA.texts)
    fitted = clone(encoder).fit(DATA.texts)
    for wrong, said in (
        ("one text", "not one text"),
        ([["a"]], "item 0 is not a text but list"),
        ([1.0], "float"),
        (None, "give a list of texts, .*given: None"),
        ({"a": "b"}, r"give a list of texts, .*given: \{'a': 'b'\}"),
        (DataFrame({"text": ["a", "b", "c"]}), r"a table with the columns \['text'\] was given; give one column"),
    ):
        for call in (encoder.fit, fitted.transform):
            with pytest.raises(InputError, match=said):
                call(wrong)
    with pytest.raises(ValueError, match="Invalid parameter 'size'"):
        encoder.set_params(size=3)
    with pytest.raises(InputError, match="no model"):
        RejoinderEncoder("nothing").fit(DATA.texts)
