"""The transformer in scikit-learn's own hands."""

import pickle

import numpy as np
import pytest

from rejoinder.arrays import unit_rows
from rejoinder.errors import InputError
from rejoinder.intents.encoders import open_encoder
from rejoinder.intents.scikit import RejoinderEncoder
from tests.intents.toy import toy_data

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import estimator_checks

DATA = toy_data(10)
LABELS = [names[0] for names in DATA.labels]

# The checks that do not hand over numbers, which no encoder of texts takes.
CHECKS = """estimator_cloneable estimator_tags_renamed valid_tag_types estimator_repr no_attributes_set_in_init
do_not_raise_errors_in_init_or_set_params mixin_order get_params_invariance set_params parameters_default_constructible
"""


@pytest.mark.parametrize("name", CHECKS.split())
def test_scikit_learns_own_checks(name, model):
    getattr(estimator_checks, f"check_{name}")("RejoinderEncoder", RejoinderEncoder(model))


def test_vectors_are_the_encoders(model):
    encoder = RejoinderEncoder(model, vectors="both")
    found = encoder.fit_transform(np.array(DATA.texts))
    np.testing.assert_allclose(found, unit_rows(open_encoder(model, "both").encode(DATA.texts)), atol=1e-6)
    assert encoder.n_features_out_ == found.shape[1] == len(encoder.get_feature_names_out())
    assert encoder.set_params(normalize=False).transform(DATA.texts).shape == found.shape
    assert RejoinderEncoder(model, also=[model]).fit_transform(list(DATA.texts)).shape[1] == 128


def test_it_works_in_a_pipeline(model):
    pipeline = make_pipeline(RejoinderEncoder(model), LogisticRegression(C=30))
    assert pipeline.fit(DATA.texts, LABELS).score(toy_data(10, seed=1).texts, LABELS) > 0.35
    assert cross_val_score(pipeline, np.array(DATA.texts), LABELS, cv=2).mean() > 0.3
    search = GridSearchCV(Pipeline([("encode", RejoinderEncoder(model)), ("classify", LogisticRegression())]),
                          {"encode__vectors": ["r", "h"], "classify__C": [1, 30]}, cv=2, error_score="raise")
    assert search.fit(np.array(DATA.texts), LABELS).best_params_["encode__vectors"] in ("r", "h")


def test_a_pickled_transformer_opens_its_encoder_again(model):
    fitted = RejoinderEncoder(model).fit(DATA.texts)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.transform(DATA.texts), fitted.transform(DATA.texts))
    copy.fingerprint_ = "another"
    with pytest.raises(InputError, match="another encoder"):
        copy.transform(DATA.texts)


def test_what_is_wrong_is_named(model):
    encoder = RejoinderEncoder(model)
    with pytest.raises(NotFittedError):
        encoder.transform(DATA.texts)
    fitted = clone(encoder).fit(DATA.texts)
    for wrong, said in (("one text", "not one text"), ([["a"]], "item 0 is no text but list"), ([1.0], "float")):
        for call in (encoder.fit, fitted.transform):
            with pytest.raises(InputError, match=said):
                call(wrong)
    with pytest.raises(ValueError, match="Invalid parameter 'size'"):
        encoder.set_params(size=3)
    with pytest.raises(InputError, match="no encoder"):
        RejoinderEncoder("nothing").fit(DATA.texts)
