"""Texts whose accents are characters of their own (Unicode's NFD), as macOS writes them."""

import unicodedata

import pytest

import rejoinder
from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.index import Index
from rejoinder.text.messages import read_message

TEXTS = ["Die Filiale in Zürich öffnet um neun.", "The crème brûlée is vegan.", "Bei Müller gibt es Brötchen."]
MESSAGES = ["crème brûlée", "Müller Brötchen", "Zürich öffnet"]


def apart(text):
    return unicodedata.normalize("NFD", text)


@pytest.fixture(scope="module")
def model():
    return rejoinder.load("convert-small")


def replies(texts):
    return [Candidate(text, title=text, examples=((text.lower(),),)) for text in texts]


def found(index, message, hybrid):
    return [(reply.position, round(reply.score, 5)) for reply in index.reply(message, 3, hybrid=hybrid)]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_read_as_the_same_with_either(message):
    assert read_message(apart(message)) == read_message(message)


@pytest.mark.parametrize("hybrid", [0.0, 0.1])
@pytest.mark.parametrize("make", [list, replies])
def test_they_find_and_are_found_as_the_same(model, tmp_path, make, hybrid):
    index = Index.build(model, make(TEXTS), tmp_path / "index")
    other = Index.build(model, make(map(apart, TEXTS)), tmp_path / "other")
    for message in MESSAGES:
        expected = found(index, message, hybrid)
        assert expected
        assert found(index, apart(message), hybrid) == expected
        assert found(other, message, hybrid) == expected
    assert other.candidate(0).text == apart(TEXTS[0]), "is given as it was written"
