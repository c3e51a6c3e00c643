"""Things that are not needed, and what replies do with them: a room is booked, given back or swapped."""

import pytest

from rejoinder.text.polarity import opposed

NO_USE = [
    ("I don't need my subscription any more", "Pause a subscription"),
    ("I no longer want the subscription", "Freeze my subscription"),
    ("We won't need the room on Thursday", "Give up a study room"),
    ("I don't need the study room any more", "Hand in your study room"),
    ("I don't need the locker", "Send back the key of a locker"),
    ("I don't need the seat", "Swap my seat"),
    ("I no longer need the parking space", "Transfer a parking space to someone else"),
    ("I don't need the newsletter", "Unsubscribe from the newsletter"),
    ("no need for the second pass any more", "Sell my second pass"),
]
USE = [
    ("We won't need the room on Thursday", "Book a study room"),
    ("I don't need the seat", "Reserve a seat"),
    ("I no longer need the parking space", "Rent a parking space"),
    ("We don't need a child seat", "I need a child seat"),
    ("We don't need the car any longer", "Keep the car for longer"),
    ("I don't want insurance", "Add insurance"),
    ("no bag please", "I'd like a bag"),
    ("I don't need the newsletter", "Subscribe to the newsletter"),
    ("I don't need a receipt", "Send me a receipt"),
    ("I don't need the locker", "Give me a locker"),
    ("please don't cancel the newsletter", "I don't want the newsletter"),
    ("I do not want to swap my seat", "Swap my seat"),
    ("don't pause my plan", "Pause my plan"),
]


@pytest.mark.parametrize(("text", "other"), NO_USE)
def test_who_needs_no_thing_may_part_with_it(text, other):
    assert opposed(text, [other]) is None


@pytest.mark.parametrize(("text", "other"), USE)
def test_who_needs_no_thing_does_not_get_it(text, other):
    assert opposed(text, [other]) == other


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I won't be needing the room", "Book a room"),
        ("I'm not interested in pausing my membership", "Pause my membership"),
        ("We are not interested in a demo", "Book a demo"),
        ("Rather than pausing I want to leave", "Pause my membership"),
        ("I want to leave instead of pausing", "Pause my membership"),
        ("Instead of a refund I'd like a voucher", "I want a refund"),
    ],
)
def test_what_is_refused_in_other_words(text, other):
    assert opposed(text, [other]) == other


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Instead of a refund I'd like a voucher", "I want a voucher"),
        ("I got the blue one instead of the red one", "I got the wrong colour"),
        ("I'm interested in a demo", "Book a demo"),
        ("I'd rather pause my membership than leave", "Pause my membership"),
        ("I haven't lost my phone, I lost my card", "I lost my card"),
        ("I didn't lose my phone but my card", "I lost my card"),
        ("I don't want to cancel my subscription, I want to cancel my order", "Cancel my order"),
        ("I did not book a court, I booked a coach", "I booked a coach"),
        ("I have not received my parcel, I received an email", "I have not received my parcel"),
    ],
)
def test_what_is_denied_of_one_thing_is_said_of_another(text, other):
    assert opposed(text, [other]) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I have not lost my card", "I lost my card"),
        ("I have not lost my card, it lies on the desk", "I lost my card"),
        ("I don't want to cancel my order, I want to move it", "Cancel my order"),
        ("I don't want to cancel my order, please don't cancel the order", "Cancel my order"),
        ("My parcel has not arrived, the tracking says it arrived yesterday", "My parcel arrived"),
        ("I did not lose my card but it is broken", "I lost my card"),
    ],
)
def test_what_is_denied_alone_stays_denied(text, other):
    assert opposed(text, [other]) == other
