# ruff: noqa: RUF001
"""WhatsApp's clocks of twelve hours in other languages, digits of other scripts, words that are not known."""

import datetime

import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.times import parse_time
from rejoinder.corpora.registry.recognition import find_form
from rejoinder.corpora.forms.choice import Choice
from rejoinder.errors import InputError

HALVES = [("ص", "م"), ("пр.об.", "сл.об."), ("π.μ.", "μ.μ."), ("ق.ظ", "ب.ظ"), ("PG", "PTG"), ("ÖÖ", "ÖS"),
          ("дп", "пп"), ("SA", "CH"), ("AM", "PM"), ("a. m.", "p. m."), ("de.", "du."), ("dop.", "odp."),
          ("上午", "下午"), ("오전", "오후"), ("ก่อนเที่ยง", "หลังเที่ยง"), ("לפנה״צ", "אחה״צ")]  # fmt: skip


def _chat(path):
    form, sample = find_form(path, Choice(), "chats")
    [chat] = form.read(sample, Choice(), Reading())
    return [(message.author, _clock(message.time)) for message in chat.messages]


def _clock(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%d %H:%M")


@pytest.mark.parametrize(("morning", "afternoon"), HALVES)
def test_names_and_times_of_twelve_hour_clocks(tmp_path, morning, afternoon):
    path = tmp_path / "chat.txt"
    path.write_text(f"9/20/25, 8:15 {morning} - Bea: Is the tap in stock?\n9/20/25, 3:05 {afternoon} - Shop: It is.\n")
    assert _chat(path) == [("Bea", "20 08:15"), ("Shop", "20 15:05")]


def test_arabic_digits_marks_and_comma(tmp_path):
    path = tmp_path / "chat.txt"
    path.write_text("٢٠\u200f/٩\u200f/٢٠٢٥، ٨:١٥ ص - Bea: Is it there?\n٢٠\u200f/٩\u200f/٢٠٢٥، ٣:٠٥ م - Shop: Yes.\n")
    assert _chat(path) == [("Bea", "20 08:15"), ("Shop", "20 15:05")]


def test_a_word_that_is_not_known_is_named_and_not_taken_for_a_name(tmp_path):
    path = tmp_path / "chat.txt"
    path.write_text("9/20/25, 8:15 zorp - Bea: Hello?\n9/20/25, 3:05 blip - Shop: Hello.\n")
    with pytest.raises(InputError, match=r"'zorp' behind the clock .* 24 hours"):
        _chat(path)


def test_times_of_tables_have_the_same_words():
    assert _clock(parse_time("20/9/2025 3:05 ÖS")) == "20 15:05"
