"""Questions without a question mark, and within a sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.text.sentences.questions import question_clauses, with_mark


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("is there parking", "is there parking?"),
        ("where do you deliver", "where do you deliver?"),
        ("WHERE DO YOU DELIVER!!!", "WHERE DO YOU DELIVER?"),
        ("how much for two rooms", "how much for two rooms?"),
        ("which forms do i need.", "which forms do i need?"),
        ("and what about sundays", "and what about sundays?"),
        ("what's the price", "what's the price?"),
        ("don't you sell lamps", "don't you sell lamps?"),
        ("who can i call", "who can i call?"),
        ("have the tickets for sunday arrived", "have the tickets for sunday arrived?"),
        ("has my order been sent", "has my order been sent?"),
        ("has a lamp ever been sent", "has a lamp ever been sent?"),
        ("have you a lamp", "have you a lamp?"),
    ],
)
def test_a_question_gets_its_mark(typed, read):
    assert with_mark(typed) == read


@pytest.mark.parametrize(
    "typed",
    [
        "is there parking?",
        "do not cancel my order",
        "don't send it",
        "when i came home my card was gone",
        "what i need is a refund",
        "my lamp is broken",
        "have a look at my photos",
        "have a lovely weekend!",
        "have the driver call me",
        "had a broken lamp",
        "have my broken lamp repaid, please",
        "are",
        "How to pay",
        "opening hours",
        "can",
        "",
    ],
)
def test_what_is_no_question_or_has_its_mark_stays(typed):
    assert with_mark(typed) == typed


@given(st.text(max_size=60))
def test_a_mark_is_set_once(text):
    assert with_mark(with_mark(text)) == with_mark(text)


@pytest.mark.parametrize(
    ("sentence", "clauses"),
    [
        ("When are you open and where can I park?", ["When are you open?", "where can I park?"]),
        (
            "I moved to Leeds last month, do you deliver to the north?",
            ["I moved to Leeds last month", "do you deliver to the north?"],
        ),
        ("my lamp arrived broken but how do i send it back", ["my lamp arrived broken", "how do i send it back?"]),
        ("Do you take cards - and is there a fee for that?", ["Do you take cards?", "is there a fee for that?"]),
        (
            "Please do not cancel my order and tell me when it arrives",
            ["Please do not cancel my order", "tell me when it arrives"],
        ),
        ("my lamp arrived broken, let me know how to return it", ["my lamp arrived broken", "let me know how to return it"]),
        ("I stayed with you last week and still need the invoice", ["I stayed with you last week", "still need the invoice"]),
        ("the lamp is broken, have a look at my photos", ["the lamp is broken", "have a look at my photos"]),
        ("I sent it back in May, so why the fee now?", ["I sent it back in May", "why the fee now?"]),
        ("I was not charged twice, but the amount is wrong", ["the amount is wrong"]),
        ("Please do not cancel it, my address has changed", ["my address has changed"]),
        ("I moved to Leeds, so do you deliver to the north?", ["I moved to Leeds", "do you deliver to the north?"]),
        ("the lamp broke and so can you send another", ["the lamp broke", "can you send another?"]),
        ("The lamp came late and so did the plug get lost?", ["The lamp came late", "did the plug get lost?"]),
        ("I need a lamp, which is the brightest one?", ["I need a lamp", "which is the brightest one?"]),
        ("i need a lamp, which do you recommend", ["i need a lamp", "which do you recommend?"]),
        ("I need a lamp and which is the brightest one", ["I need a lamp", "which is the brightest one?"]),
        ("I have a dog, who can look after it?", ["I have a dog", "who can look after it?"]),
        ("I haven't lost my key but I can't open the box, where do I buy one", ["I can't open the box", "where do I buy one?"]),
    ],
)
def test_a_sentence_is_cut_where_a_question_begins(sentence, clauses):
    assert question_clauses(sentence) == clauses


@pytest.mark.parametrize(
    "sentence",
    [
        "Where is my parcel?",
        "Hello, where is my parcel?",  # what is before it says nothing
        "I lost my card, what should I do?",  # nor does the question
        "I paid for two and got one",
        "I like the lamp and the table",
        "My parcel has not come, please let me know",
        "My card was charged twice, but the amount is right",  # denies nothing
        "I want it not by mail, but by phone",  # no clause
        "The lamp is broken, and so is the plug of it.",  # as the lamp is
        "My sister waited for an hour and so did her two friends",
        "The lamp flickers, so does the one in the hall.",
        "I got a huge bill, which is not what we agreed on.",  # of what was named
        "we have a dog, who is very quiet at night",
        "I spoke to a man, who was rather rude to me.",
        "Tell the driver, whose van is blue, to wait outside.",
        "I bought plugs, which have never worked in the kitchen.",
        "I do not get this bill. What must I do so that I can come again?",
        "Send the lamp today so that I have it by Friday",  # the aim
        "I do not need the lamp so that can wait until May",
        "I do not know when the parcel came, nor where it is now",  # asks nothing
        "",
    ],
)
def test_other_sentences_are_not_cut(sentence):
    assert question_clauses(sentence) == []
