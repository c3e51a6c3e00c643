"""Lines that look like those of quoted mails and programs, and are the sender's own."""

import pytest

from rejoinder.text.mails.cleaning import clean_mail, own_text


@pytest.mark.parametrize(
    "text",
    [
        "Please book a taxi.\n\nFrom: Airport\nTo: Hotel Adler\nDate: 3 May\n\nIs a child seat possible?",
        "I need a quote.\nFrom: Monday\nTo: Friday\nIs the pool open?",
        "My drive is:\nExternal\nIt fails",
    ],
)
def test_what_looks_like_lines_of_a_program_stays(text):
    assert clean_mail(text) == text
    assert own_text(text) == text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("I get this error:\n\n> ERR_RESET\n\nHow do I fix it?", "I get this error:\n\nERR_RESET\n\nHow do I fix it?"),
        ("I ordered:\n> 2 lamps\n> 1 table\nWhere are they?", "I ordered:\n2 lamps\n1 table\nWhere are they?"),
        ("1. Open the app.\n2. Click:\n> Settings > Reset", "1. Open the app.\n2. Click:\nSettings > Reset"),
        ("The page says:\n> Access denied", "The page says:\nAccess denied"),
    ],
)
def test_what_a_sender_shows_behind_marks_stays(text, read):
    assert clean_mail(text) == read
    assert own_text(text) == read


@pytest.mark.parametrize("introduction", ["You wrote to us:", "Anna said this:", "Anna kirjoitti:", "In our last mail:"])
def test_what_somebody_else_wrote_is_left_out(introduction):
    assert own_text(f"It is red.\n\n{introduction}\n> Which lamp?") == "It is red."


@pytest.mark.parametrize("field", ["Subject: Re: a lamp", "Sent: Monday", "Cc: Anna <anna@a.org>"])
def test_a_header_without_an_address_is_one_by_a_field_of_mails(field):
    assert own_text(f"Is it open?\n\nFrom: Tom Miller\nTo: Support\n{field}\n\nWe open at nine.") == "Is it open?"


def test_external_is_a_gateways_above_a_mail():
    assert clean_mail("EXTERNAL\n\nIs it open?") == "Is it open?"
