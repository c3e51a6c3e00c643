"""Personal data: what is found, what is not, and that it does not reach what is written."""

import json
from collections import Counter

import pytest

import rejoinder
from rejoinder.corpora.pipeline.build import build_data
from rejoinder.corpora.redaction import redact
from rejoinder.corpora.registry.sources import find_corpus
from tests.adversary import seconds
from tests.corpora.personal_data import FORMS, ORDERS


@pytest.mark.parametrize(("text", "redacted"), [
    ("I am anna.b+shop@mail.example.org.", "I am <email>."),
    ("card 4111 1111 1111 1111, or 4111-1111-1111-1111", "card <card>, or <card>"),
    ("3782 822463 10005 and 6011111111111117", "<card> and <card>"),
    ("a.org/article?sid=05/07/02/0133122471&id=99956644665999, 4096 2006-02-19 04:30", None),
    ("4111 1111 1111 1112", "4111 1111 1111 1112"),  # Luhn's check fails
    ("IMEI: 356938035643809", "IMEI: 356938035643809"),  # of a telephone, with Luhn's check
    ("0000 0000 0000 0000", "0000 0000 0000 0000"),
    ("to DE89 3704 0044 0532 0130 00 AND NOT HERE", "to <iban> AND NOT HERE"),
    ("to GB82WEST12345698765432.", "to <iban>."),
    ("DE88 3704 4144 1532 1130 10", "DE88 3704 4144 1532 1130 10"),  # not a remainder of 1
    ("call +49 170 1234567 or +1 (555) 010-9999!", "call <phone> or <phone>!"),
    ("call (030) 123 45 67 or 01701234567 or 0049 170 1234567", "call <phone> or <phone> or <phone>"),
    ("call 555-010-9999, (555) 010-9999", "call <phone>, <phone>"),
    ("order 12345678901 of 01.02.2023 10:15, 1,000,000 items at 10.99", None),
    ("2023-11-05 12:00:00, room 12-34, ISBN 978-3-16-148410-0, 192.168.0.1", None),
    ("me @ home, a@b", None),
])  # fmt: skip
def test_what_is_replaced(text, redacted):
    found = Counter()
    wanted = text if redacted is None else redacted
    assert redact(text, found) == wanted
    assert found.total() == wanted.count("<")


@pytest.mark.parametrize(("kind", "form"), [(kind, form) for kind, forms in FORMS.items() for form in forms])
def test_forms_in_which_people_write_personal_data(kind, form):
    found = Counter()
    redacted = redact(f"Please note {form} and answer soon", found)
    assert found == {kind: 1}
    assert not any(char.isdecimal() for char in redacted)
    assert "bea" not in redacted.lower()
    assert redacted.startswith("Please note ")
    assert redacted.endswith(" and answer soon")


def test_numbers_of_things_stay():
    texts = [f"It is about {order} please" for order in ORDERS]
    replaced = [text for text in texts if redact(text) != text]
    assert len(replaced) <= 2, replaced


def test_a_long_message_is_redacted_at_once():
    message = "My order 12345 is late, call 030 1234567 or write to bea@example.com. " * 300
    hexadecimal = "0123456789abcdef" * 1_240
    for text in (message[:20_000], hexadecimal, "a@" * 10_000, "DE00 " * 4_000, "1 2" * 6_600):
        assert seconds(lambda text=text: redact(text)) < 0.1


@pytest.mark.parametrize(("source", "name", "line"), [
    ("jsonl", "a.jsonl", json.dumps({"turns": ["I am a@b.org", "Hello a@b.org"]})),
    ("csv", "a.csv", "I am a@b.org,Hello a@b.org"),
    ("faq", "a.csv", "I am a@b.org,Hello a@b.org"),
])  # fmt: skip
def test_nothing_of_it_is_written(tmp_path, source, name, line):
    (tmp_path / name).write_text(f"{line}\n")
    corpus = find_corpus(source)
    told = build_data(corpus, [f"train={tmp_path / name}"], tmp_path / "data", settings=corpus.settings(redact=True))
    [example] = rejoinder.read_examples(tmp_path / "data")
    assert (example.context, example.response) == (("I am <email>",), "Hello <email>")
    assert told.settings["redact"]
    assert told.redacted == 1
