"""Closings of letters and chats, names below them, and what looks like these and is said."""

import pytest

from rejoinder.text.mails.cleaning import clean_mail

ASKED = "Where is the key to room nine?"


@pytest.mark.parametrize(
    "closing",
    [
        "Sorry",
        "So sorry!",
        "Sorry again",
        "Sorry to bother you",
        "Apologies for the trouble",
        "Sorry for the long story,",
        "Ta very much",
        "Thanks a ton",
        "Thanks loads!",
        "Many thanks again",
        "Thank you ever so much",
        "Thanks in anticipation",
        "Thanks once again",
        "BW",
        "Yours respectfully",
        "Yours ever",
        "With thanks for two lovely weekends,",
        "Thanks for all the lamps,",
    ],
)
@pytest.mark.parametrize(
    "names", ["Anna", "Anna Li", "Anna and Peter Brook", "Julia Sharp", "Anna (guest no. 812)", "Anna Li, room 9", "Dev"]
)
def test_a_closing_is_left_out_with_its_names(closing, names):
    assert clean_mail(f"{ASKED}\n\n{closing}\n{names}") == ASKED


@pytest.mark.parametrize(
    "text",
    [
        "Sorry\nmy lamp broke",
        "Sorry\nThe lamp fell",
        "Sorry for the late return,\nit rained",
        f"{ASKED}\nSorry I cannot come,\nAnna Li told me",
        f"{ASKED}\nThanks for sending me another,\nAnna",
        f"{ASKED}\nThanks for the refund\nAnna",
        f"{ASKED}\nSorry\nRefund (order 812)",
        f"{ASKED}\nThanks a ton\nrefund it",
        f"{ASKED}\nThanks loads\nThe lamp is dark, too",
        f"{ASKED}\nYours was better\nAnna",
        f"{ASKED}\nSorry, which one\nAnna or Peter?",
        f"{ASKED}\nThanks\nWill Call",
        f"{ASKED}\nThanks\nLamps, two",
    ],
)
def test_what_is_said_below_or_in_such_a_line_stays(text):
    assert clean_mail(text) == text


def test_an_apology_that_is_all_of_a_mail_stays():
    assert clean_mail("Sorry for the late return,\nAnna") == "Sorry for the late return,"
