"""Names at the end of a mail that has no closing, and names that a mail is about."""

import pytest

from rejoinder.text.mails.cleaning import clean_mail

ASKED = "Where is the key to room nine?"


@pytest.mark.parametrize(
    "sender",
    ["Anne and Paul Weber", "Anne & Paul", "Tom", "Tom.", "- Tom", "Jane Miller", "Tom x", "xoxo Lizzy", "x Lizzy", "xx Tazzy", "Emma Mark Hill"],
)
def test_names_at_the_end_of_a_mail_are_left_out(sender):
    assert clean_mail(f"Hi all,\n\n{ASKED}\n\n{sender}") == ASKED
    assert clean_mail(f"where is the lamp that broke\n\n{sender}") == "where is the lamp that broke"
    assert clean_mail(f"The lamp broke.\n{ASKED}\n{sender}\n") == f"The lamp broke.\n{ASKED}"


def test_a_family_signs_in_its_own_paragraph():
    assert clean_mail(f"{ASKED}\n\nThe Millers") == ASKED
    assert clean_mail(f"{ASKED}\nThe Millers") == f"{ASKED}\nThe Millers"


@pytest.mark.parametrize(
    "last",
    ["Leeds", "Zyrkonia Lamp", "Anne Lamp", "Tom Ford Lamps Store in Leeds", "Samsung Galaxy", "Anna 3 Oak Road", "The Lamps", "Room Nine", "x", "Saturday", "anna's lamp", "Ask Anna"],
)
def test_other_last_lines_stay(last):
    assert clean_mail(f"{ASKED}\n\n{last}") == f"{ASKED}\n\n{last}"


@pytest.mark.parametrize(
    "above",
    [
        "Please change the name on my ticket.\n",
        "Which player is on the shirt?\n",
        "Badges are needed for:\n",
        "The lamp is for\n",
        "The ticket of",
        "please send the lamp to\n",
        "Keys.\nAnna Li",
        "Hi Anna,\n",
        "Hello\n",
    ],
)
def test_a_name_that_a_mail_is_about_stays(above):
    assert clean_mail(f"{above}\nTom Miller").endswith("Tom Miller")
