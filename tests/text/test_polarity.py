"""A no is a no: texts that say the opposite of the same thing, and those that only have a negator."""

import pytest

from rejoinder.text.polarity import MOST_WORDS, opposed

CARD = ["my card was declined", "the payment failed"]
CANCEL = ["how do I cancel my order", "please cancel my order"]
FACTOR = ["turn on two-factor login", "how do I log in with the second factor"]


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("please do not cancel my order", CANCEL),
        ("Don\u2019t cancel my order!", CANCEL),
        ("I never wanted to cancel my order", CANCEL),
        ("my card was not declined", CARD),
        ("my card wasnt declined", CARD),
        ("my card was accepted", CARD),
        ("I don't think my card was declined", CARD),
        ("the lamp is not broken", ["the lamp is broken"]),
        ("I do not want to return it", ["I want to return it"]),
        ("log in without the second factor please", FACTOR),
        ("turn two-factor login off", FACTOR),
        ("unlock my card", ["lock my card"]),
        ("do not unsubscribe me", ["unsubscribe me from the newsletter"]),
        ("stop sending me letters", ["send me letters"]),
        ("the refund came", ["the refund never came"]),
        ("cancel the order after it shipped", ["cancel an order before it ships"]),
    ],
)
def test_the_opposite(text, others):
    assert opposed(text, others) in others


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("I cannot cancel my order", CANCEL),
        ("I don't know how to cancel my order", CANCEL),
        ("why can't I cancel my order", CANCEL),
        ("can you not cancel my order?", CANCEL),
        ("my order was not cancelled", CANCEL),
        ("I do not like it, cancel my order", CANCEL),
        ("cancel my order", CANCEL),
        ("I don't know why my card was declined", CARD),
        ("two-factor login does not turn on", FACTOR),
        ("I have not received my refund yet", ["when do I receive my refund"]),
        ("my parcel did not arrive", ["when will my parcel arrive", "has my parcel arrived"]),
        ("I don't have an invoice", ["I need an invoice"]),
        ("it does not work", ["my lamp does not work", "works"]),
        ("I will pay before Monday", ["the shop opens after nine"]),
        ("", CANCEL),
        ("no", CANCEL),
        ("not", []),
        ("do not " * MOST_WORDS + "cancel", CANCEL),
    ],
)
def test_no_opposite(text, others):
    assert opposed(text, others) is None
