"""Variable parts of messages become named placeholders; what is the same everywhere stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.curation.forms import mask, tokens_of
from rejoinder.curation.frames import Frames
from rejoinder.curation.placeholders import with_placeholders
from rejoinder.text.placeholders import PLACEHOLDER

TEXTS = st.text("aA1.,:;!? #-@<>{}/€$\n", max_size=60) | st.text(max_size=60)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("It ships on 3 May 2024 at 10:30 am.", "It ships on date at time."),
        ("From 9:00 to 18:30.", "From time to time."),
        ("That is $12.50 or 12,50 €", "That is amount or amount"),
        ("Ref 8GTTH4FF, order #4711-AB", "Ref code, order code"),
        ("See https://shop.example/x?y=1, or a@b.example.", "See link, or email."),
        ("Call +49 170 1234567 for 2 items", "Call phone for number items"),
        ("Hi <name>, <email>", "Hi name, email"),
        ("May I help you? I may.", "May I help you? I may."),
    ],
)
def test_known_forms_are_masked(text, masked):
    assert mask(text) == masked


@given(TEXTS)
def test_tokens_are_the_text_without_its_spaces(text):
    tokens = tokens_of(text)
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert "".join("".join(token.text for token in tokens).split()) == "".join(text.split())


@given(TEXTS, st.lists(TEXTS, max_size=4))
def test_a_text_without_variable_parts_comes_back(text, others):
    filled = with_placeholders(text, others)
    assert with_placeholders(text, [text] * 3) == with_placeholders(text, [])
    assert filled == text or PLACEHOLDER.search(filled)


def test_parts_that_differ_are_named():
    filled = with_placeholders(
        "Hi Anna, your order 47112 of 2 lamps ships on Monday from Berlin.",
        [
            "Hi Jo, your order 99999 of 2 lamps ships on Friday from Rome.",
            "Hi Mr Smith, your order 12345 of 2 lamps ships on Tuesday from Porto.",
            "Hi Lee, your order 12346 of 2 lamps ships on 3 May from York.",
        ],
    )
    assert filled == ("Hi {name}, your order {order} of 2 lamps ships on {date} from {value}.")


def test_two_of_a_name_are_numbered_and_other_wordings_are_no_values():
    others = ["We are open from 8:00 to 17:30.", "We really are open from 9:00 to 18:00."]
    filled = with_placeholders("We are open from 9:00 to 17:00.", others)
    assert filled == "We are open from {time} to {time_2}."


def test_redacted_parts_are_placeholders_by_themselves():
    assert with_placeholders("Dear <name>, we wrote to <email>.", []) == (
        "Dear {name}, we wrote to {email}."
    )


def test_frames_are_what_begins_or_ends_different_messages():
    words = "Sending returning paying calling asking lending buying cutting folding walking".split()  # noqa: SIM905
    said = [f"{word.title()} costs nothing if you {word} a {word}." for word in words]
    texts = [f"Hi there! {text} Best, Tom" for text in said] + said
    frames = Frames(texts)
    assert [frames.remove(text) for text in texts] == said + said
    assert frames.remove("Hi there!") == "Hi there!"
    assert frames.remove("Hi there! Best, Tom") in ("Hi there!", "Best, Tom", "Hi there! Best, Tom")


def test_what_is_left_behind_a_greeting_begins_with_a_capital_as_the_message_does():
    words = "Sending returning paying calling asking lending buying cutting folding walking".split()  # noqa: SIM905
    texts = [f"Hi there, {word.lower()} costs nothing if you {word} a {word}." for word in words]
    frames = Frames(texts)
    assert frames.remove("Hi there, sending is free.") == "Sending is free."
    assert frames.remove("hi there, sending is free.") == "sending is free."
    assert frames.remove("Hi there, iPhones are sold out.") == "iPhones are sold out."


def test_what_always_comes_before_the_same_is_no_frame():
    texts = ["Sorry about that. It ships tomorrow."] * 30
    assert Frames(texts).remove(texts[0]) == texts[0]
