"""Choices of the log become examples: bounded, by the majority, reversible."""

import pytest

from rejoinder.corpora.schema import Candidate, Example
from rejoinder.curation.choices import MOST_OF_SOURCE, chosen_matches, positions_by_text
from rejoinder.curation.examples import MOST_EXAMPLES
from rejoinder.curation.feedback import Entry
from rejoinder.curation.learning import forget, learn, learn_chosen
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from tests.logs import log_of, recorder
from tests.retrieval.test_examples import WordEncoder

TEXTS = ["We open at nine.", "Refunds take five days.", "Please send the number of your order."]
REPLIES = {at: Candidate(text) for at, text in enumerate(TEXTS)}


@pytest.fixture
def index(tmp_path):
    return Index.build(WordEncoder(), TEXTS, tmp_path / "index")


def entries(*rows):
    """Entries of (message, position chosen, source)."""
    return [
        Entry((message,), tuple(TEXTS), None if at is None else TEXTS[at], None, source=source, id=number)
        for number, (message, at, source) in enumerate(rows, 1)
    ]


def chosen(*rows):
    return [(match.context[0], match.position) for match in chosen_matches(positions_by_text(REPLIES, {}), entries(*rows))]


def test_choices_become_matches_and_the_rest_does_not():
    assert chosen(("when", 0, "a"), ("hm", None, "a"), ("money", 1, "b")) == [("when", 0), ("money", 1)]


@pytest.mark.parametrize(
    ("rows", "winner"),
    [
        ([("q", 0, "a"), ("q", 1, "b"), ("Q?", 1, "c")], 1),
        ([("q", 0, "a"), ("q", 0, "a"), ("q", 0, "a"), ("q", 1, "b"), ("q", 1, "c")], 1),
        ([("q", 0, "a"), ("q", 0, "a"), ("q", 1, "b")], 0),
        ([("q", 0, "a"), ("q", 1, "a")], 1),
    ],
)
def test_equal_conversations_are_decided_by_sources_then_number_then_age(rows, winner):
    assert [position for _, position in chosen(*rows)] == [winner]


def test_nobody_teaches_a_reply_more_than_so_much():
    rows = [(f"wrong {at}", 0, "careless") for at in range(50)] + [(f"right {at}", 0, "careful") for at in range(3)]
    found = chosen(*rows)
    assert [text for text, _ in found if text.startswith("wrong")] == [f"wrong {at}" for at in range(MOST_OF_SOURCE)]
    assert len(found) == MOST_OF_SOURCE + 3
    assert 2 * MOST_OF_SOURCE <= MOST_EXAMPLES


def test_replies_that_are_gone_teach_nothing():
    gone = Entry(("q",), ("old",), "an old reply", None, id=1)
    assert chosen_matches(positions_by_text(REPLIES, {}), [gone]) == []


def test_an_index_learns_from_its_log_and_can_forget(index):
    before = dict(index)
    for number in range(4):
        recorder(index).feedback([f"what about my money number {number}"], [0, 1], chosen=1, source="anna")
    recorder(index).feedback(["the shop"], [0, 1], text="We open at nine.")
    learned = learn(index, log_of(index))
    assert (learned.messages, learned.chosen, learned.examples) == (0, 5, 5)
    assert ("the shop",) in dict(index)[0].learned
    [[best]] = index.search([["my money"]], k=1, minimum_score=-9.0)
    assert best.position == 1
    assert learn(index, log_of(index)).examples == 0
    assert learn_chosen(index, log_of(index)) == 0
    assert forget(index, log_of(index)) == 5
    assert dict(index) == before
    assert learn_chosen(index, log_of(index)) == 0, "what was forgotten does not come back by itself"
    recorder(index).feedback(["is it open"], [0], chosen=0)
    assert learn_chosen(index, log_of(index)) == 1
    assert learn(index, log_of(index)).examples == 5, "but it does if somebody asks for it"


def test_chats_and_choices_are_learned_together(index):
    recorder(index).feedback(["what about my money"], [0, 1], chosen=1)
    chats = [Example((f"question {at}",), TEXTS[0], thread=str(at)) for at in range(10)]
    learned = learn(index, log_of(index), chats)
    assert (learned.messages, learned.matched, learned.chosen) == (10, 10, 1)
    assert learned.examples == 10 - learned.held_out + 1


def test_choices_are_learned_after_the_index_was_built_again(index):
    recorder(index).feedback(["what about my money"], [0, 1], chosen=1)
    other = Index.build(WordEncoder(), TEXTS[::-1], index.store, overwrite=True)
    assert learn_chosen(other, log_of(other)) == 1
    assert dict(other)[1].learned == (("what about my money",),)


def test_conversations_are_equal_as_they_are_cleaned():
    signed = "Hello,\n\nwhere is it?\n\nBest regards,\nAnna Smith"
    assert [position for _, position in chosen((signed, 0, "a"), ("where is it?", 1, "b"), ("where is it?", 1, "c"))] == [1]


def test_a_conversation_without_words_teaches_nothing_and_stops_nobody():
    assert chosen((" ", 0, "a"), ("when", 1, "b")) == [("when", 1)]


def test_a_conversation_without_words_is_not_logged(index):
    with pytest.raises(InputError, match="no message with words"):
        recorder(index).feedback(["\x1c", " "], [0], chosen=0)
    assert len(log_of(index)) == 0
