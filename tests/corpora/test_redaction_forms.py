"""Personal data as copied from other programs: accents apart, columns, invisible characters; and what only looks so."""

import unicodedata

import pytest

from rejoinder.corpora.redaction import redact


def apart(text):
    return unicodedata.normalize("NFD", text)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (apart("an user@münchen.de"), "an <email>"),
        (apart("René: rené@orange.fr, merci"), apart("René: <email>, merci")),
        (apart("anna.müller@web.de"), "<email>"),
        ("jane.doe@exam\u200bple.com", "<email>"),
        ("jane\u00addoe@example.com!", "<email>!"),
        ("a name\uff20example.com", "a <email>"),
        ("root@192.168.0.1", "<email>"),
        ("4111\t1111\t1111\t1111", "<card>"),
        ("card=4111111111111111", "card=<card>"),
        ("cardno=4111 1111 1111 1111", "cardno=<card>"),
        ("DE89\t3704\t0044\t0532\t0130\t00", "<iban>"),
        ("+49\t30\t901820", "<phone>"),
        ("Anna\t+1\t202\t555\t0143", "Anna\t<phone>"),
        ("Anna\t+49 170 1234567\t2026", "Anna\t<phone>\t2026"),
        ("+49 30 901820\t42\t12.50", "<phone>\t42\t12.50"),
        ("4111 1111 1111 1111\t3", "<card>\t3"),
        ("3782\t822463\t10005\t12/26", "<card>\t12/26"),
        ("?Card_Number=4111111111111111&x=1", "?Card_Number=<card>&x=1"),
        ("+49 30\u200b901820", "<phone>"),
        ("नमस्ते@उदाहरण.भारत", "<email>"),
        (apart("a@b.café, café"), apart("<email>, café")),
        ("\u2068a@b.org\u2069 \u200ea@b.org\u200e", "\u2068<email>\u2069 \u200e<email>\u200e"),
        ("\u2764\ufe0fa@b.org \u260e\ufe0f+49 30 901820", "\u2764\ufe0f<email> \u260e\ufe0f<phone>"),
        ("My package is late, here is my number: 202-555-0143", "My package is late, here is my number: <phone>"),
        ("About my order: my number is 0170 1234567", "About my order: my number is <phone>"),
    ],
)
def test_what_other_programs_write_is_found(text, redacted):
    assert redact(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "I ordered 3 shirts @ 9.99 and 2 hats @ 4.50",
        "table for two @ 19.30",
        "1 kg @ 2.40/kg",
        "we meet @ 5.30pm",
        "2 items (at) 4.50 each",
        "two [at] 19.30",
        "meet at 9 dot 30",
        "512\t340\t777",
        "1\t12.50\t2026\t11",
        "\t".join(map(str, range(2000, 2060))),
        "4111\t1111\t1111\t1111\t1234",
        "1234\t4111\t1111\t1111\t1111",
        "+3\t1200\t4500",
        "1200\t+44\t1244\t1300",
        "+44\t1200\t1244\t+13",
        "a.org/?id=4111111111111111&x=1",
        "my order number is 202-555-0143",
        apart("crème brûlée für 2"),
        apart("référence 2025550143"),
    ],
)
def test_prices_times_columns_and_orders_stay(text):
    assert redact(text) == text
