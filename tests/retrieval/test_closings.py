"""Messages that close a matter are told by the replies that fit them."""

import math
import weakref

import numpy as np
import pytest

import rejoinder
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.retrieval.choice import closings
from rejoinder.retrieval.choice.closings import CLOSED, CLOSING_REPLIES, LEAST_FOUND, OPEN, OPEN_REPLIES, closings_of, may_be_closing
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.replies import NEAR_COPY
from tests.retrieval.test_examples import WordEncoder

FAQ = {
    "My wifi is broken": "Please restart the router.",
    "How do I book an appointment?": "Book it online.",
    "I got a letter from you": "Please send us its number.",
    "Where is my order?": "See the link in our mail.",
}


@pytest.fixture(scope="module")
def model():
    return rejoinder.load("bi-small")


@pytest.fixture(scope="module")
def index(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("closings") / "index"
    return Index.build(model, [Candidate(text, title=title) for title, text in FAQ.items()], folder)


class TellingEncoder(WordEncoder):
    """Finds the replies that close a matter nearest to the messages of `closed`."""

    def __init__(self, closed):
        super().__init__()
        self.closed = frozenset(closed)

    def encode_responses(self, responses, _advance=None):
        return self._rows([text in CLOSING_REPLIES for text in responses])

    def encode_contexts(self, contexts, _advance=None):
        return self._rows([context[-1] in self.closed for context in contexts])

    def _rows(self, is_closing):
        return np.array([[1.0, 0.0] if each else [0.0, 1.0] for each in is_closing], dtype=np.float32)


def test_an_encoder_tells_closings_by_replies():
    found = closings_of(TellingEncoder(CLOSED))
    assert len(found.closing) == len(CLOSING_REPLIES)
    assert len(found.opening) == len(OPEN_REPLIES)
    assert found.is_closing(np.array([1.0, 0.0], np.float32))
    assert not found.is_closing(np.array([0.0, 1.0], np.float32))


@pytest.mark.parametrize("closed", [(), CLOSED[: int(LEAST_FOUND * len(CLOSED))], (*CLOSED, *OPEN)])
def test_one_that_tells_too_little_is_not_relied_on(closed):
    assert closings_of(TellingEncoder(closed)).threshold == math.inf


def test_one_of_several_vectors_is_not_relied_on():
    class Several(TellingEncoder):
        def encode_contexts(self, contexts, _advance=None):
            vectors = super().encode_contexts(contexts)[:, None]
            return ContextVectors(vectors)

    assert closings_of(Several(CLOSED)).threshold == math.inf


def test_an_encoder_is_measured_once_and_let_go(monkeypatch):
    encoder = TellingEncoder(CLOSED)
    first = closings_of(encoder)
    monkeypatch.setattr(closings, "_measure", None)
    assert closings_of(encoder) is first
    gone = weakref.ref(encoder)
    del encoder
    assert gone() is None


def test_messages_of_the_measure_may_be_closing():
    assert all(map(may_be_closing, (*OPEN, *CLOSED)))


@pytest.mark.parametrize(
    "text",
    [
        "where is my order",
        "please send it again, thanks",
        "I want it back, thanks",
        "it never came, thanks",
        "it came and is broken, thanks",
        "Close my account",
        "hi good evening",
        "I am so happy",
        "found my card, thanks, unblock it",
        "",
    ],
)
def test_who_asks_wishes_denies_or_names_a_fault_closes_nothing(text):
    assert not may_be_closing(text)


@pytest.mark.parametrize(
    "message",
    [
        "The technician was here this morning and the line is fast now. Thank you for arranging it so quickly.",
        "The new router came yesterday and works like a charm",
        "I've booked online now, it was easier than I thought. Thanks anyway",
    ],
)
def test_no_reply_to_a_problem_is_given_to_a_closing(index, message):
    assert index.reply(message) == []
    assert index.silence([message]) == "denied"


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("My wifi is dead since the technician was here", "My wifi is broken"),
        ("The wifi worked yesterday, thanks. Now it is broken again.", "My wifi is broken"),
        ("I got your letter, thanks", "I got a letter from you"),
        ("It works again, thanks. And where is my order?", "Where is my order?"),
        ("The wifi died last night", "My wifi is broken"),
    ],
)
def test_other_messages_have_their_reply(index, message, title):
    assert index.reply(message)[0].title == title


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("I was treated very rudely by your receptionist today", "We are sorry."),
        ("the movers dropped the piano", "We pay for the damage."),
    ],
)
def test_what_happened_is_no_closing(model, message, text):
    replies = [
        Candidate("Tell us your new address.", examples=("I have moved", "change my address")),
        Candidate("We are sorry.", examples=("I want to complain", "your receptionist was rude")),
        Candidate("We pay for the damage.", examples=("you dropped my wardrobe", "your men damaged it")),
        Candidate("From 8 to 18.", examples=("when are you open", "opening hours")),
    ]
    assert Index.build(model, replies).reply(message)[0].text == text


def test_a_near_duplicate_of_the_opposite_is_a_reply_of_its_own(model):
    text = "If the course is too {0}, we move you to a {1} group in the first three weeks."
    replies = [
        Candidate(text.format("hard", "lower"), examples=("the course is too hard for me", "I don't follow in class")),
        Candidate(text.format("easy", "higher"), examples=("the course is too easy for me", "I'm bored in class")),
        Candidate("We open at nine.", examples=("when do you open", "opening hours")),
        Candidate("You can pay by card.", examples=("how can I pay", "do you take cards")),
    ]
    index = Index.build(model, replies)
    assert index.reply("the course is not too hard, it's too easy")[0].position == 1
    vectors = model.encode_responses([reply.text for reply in replies[:2]])
    assert vectors[0] @ vectors[1] > NEAR_COPY
