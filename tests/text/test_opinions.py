"""What a customer says not to think, and "not only": "I don't think I want to cancel"."""

import pytest

from rejoinder.text.polarity import opposed


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("I don't think I want to cancel", "I want to cancel my order"),
        ("I don't think I'd like to book the room", "I want to book the room"),
        ("I doubt we need the insurance", "we need an insurance"),
        ("I don't believe that I need the insurance", "I need an insurance"),
        ("I don't suppose we should cancel", "we should cancel the trip"),
    ],
)
def test_what_is_not_thought_is_denied(text, known):
    assert opposed(text, [known])


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("Not only the lamp is broken but the table too", "the lamp is broken"),
        ("It is not just slow, it is loud", "it is slow"),
        ("I don't think I want to cancel", "I don't want to cancel"),
        ("I don't know if I want to cancel", "I want to cancel my order"),
        ("I think I want to cancel", "I want to cancel my order"),
    ],
)
def test_what_is_added_or_thought_is_not(text, known):
    assert opposed(text, [known]) is None
