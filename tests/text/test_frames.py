"""Quotes, bullets, labels and mentions around a message are no part of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.text.messages import read_message
from rejoinder.text.sentences.frames import without_frame

QUESTION = "Where do I find the opening hours?"


@pytest.mark.parametrize(
    "framed",
    [
        f"@support {QUESTION}",
        f"<@U024BE7LH> {QUESTION}",
        f"@Shop.Help, @kim: {QUESTION}",
        f"- {QUESTION}",
        f"\u2022 {QUESTION}",
        f"1. {QUESTION}",
        f"2) {QUESTION}",
        f"Q: {QUESTION}",
        f"Question 2: {QUESTION}",
        f"Subject: {QUESTION}",
        f"Re: Fwd: {QUESTION}",
        f'"{QUESTION}"',
        f"\u201c{QUESTION}\u201d",
        f"({QUESTION})",
        f"*{QUESTION}*",
        f"...{QUESTION}",
        f"**{QUESTION}**",
        QUESTION.replace("find", "**find**"),
        f"[EXTERNAL] {QUESTION}",
        f"[12:03] Kim: {QUESTION}",
        f"Customer: {QUESTION}",
        f"Ticket #4711: {QUESTION}",
        QUESTION.replace(" ", "&nbsp;"),
        f"@support Question: *{QUESTION}*",
        QUESTION.replace("?", "!"),
        QUESTION.replace("?", "\uff1f"),
        QUESTION.replace("find the", "find\nthe"),
        QUESTION.replace(" ", "  "),
        QUESTION.replace(" ", "\t"),
        QUESTION.replace(" ", "\xa0"),
        QUESTION.replace("?", " ?"),
        QUESTION.replace("?", "\xa0?"),
    ],
)
def test_a_framed_message_is_read_without_its_frame(framed):
    assert read_message(framed).parts == (QUESTION,)
    listed = read_message(f"I moved to Leeds last week.\n{framed}\nI paid for two lamps.").parts
    assert QUESTION in listed


@pytest.mark.parametrize(
    "text",
    [
        '"Add to basket" does nothing',
        "(a) or (b)?",
        "4 weeks ago I paid",
        "1. 5 kg of sand",
        "'tis late",
        "kim@example.com is my address",
        "Order: it is late",
        "Order 4711: it is late",
        "array[3] is wrong",
        "*",
        "()",
        "",
    ],
)
def test_what_is_no_frame_stays(text):
    assert without_frame(text) == text


@given(st.text(alphabet="ab .?\"'()*@1-:Q", max_size=30))
def test_nothing_but_a_frame_is_taken_off(text):
    bare = without_frame(text)
    assert without_frame(bare) == bare
    assert bare.rstrip(".!?") in text


def test_lines_of_a_chat_stay_sentences_of_their_own():
    assert read_message("where is my parcel\nit is late").parts[1:] == ("where is my parcel", "it is late")
    wrapped = read_message("My parcel is late\ncan I cancel it\ni paid by card").parts
    assert wrapped[1:] == ("My parcel is late", "can I cancel it", "i paid by card")


def test_a_line_whose_small_letter_is_no_word_is_read():
    assert read_message("My parcel is late\n\u24d0").text == "My parcel is late \u24d0"
