"""Short forms of weekdays."""

import pytest

from rejoinder.text.messages import read_message
from rejoinder.text.weekdays import read_weekdays


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("open on sat?", "open on Saturday?"),
        ("are you open this sun", "are you open this Sunday"),
        ("Do you work next Wed morning", "Do you work next Wednesday morning"),
        ("closed fri at 5?", "closed Friday at 5?"),
        ("can I come on thurs. or tomorrow", "can I come on Thursday or tomorrow"),
        ("mon-fri or sat & sun", "Monday-Friday or Saturday & Sunday"),
        ("is it Mon, Tues and Thu only", "is it Monday, Tuesday and Thursday only"),
    ],
)
def test_they_are_read_as_whole_names(typed, read):
    assert read_weekdays(typed) == read


@pytest.mark.parametrize(
    "typed",
    [
        "I sat on sun loungers and wed my friend",
        "is this sun cream waterproof",
        "a lamp with open sun roof",
        "I sat and waited until noon",
        "does it protect from the sun?",
        "write to sat@sun.example",
        "the last sat nav broke",
        "we lay in the sun, sat up late",
        "on Saturday",
        "mon-ami.example or sun-tan",
        "open on fr\u0131?",  # Turkish letters, which are no other case of English ones
        "mon or \u017fun, or fr\u0130",
    ],
)
def test_other_words_stay(typed):
    assert read_weekdays(typed) == typed


def test_a_message_is_read_with_them_and_with_other_short_forms():
    assert read_message("r u open mon-fri").text == "are you open Monday-Friday"


def test_other_languages_stay():
    assert read_message("où est mon colis").text == "où est mon colis"
