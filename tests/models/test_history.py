"""Earlier messages as one text: newest first, cut where it is oldest."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.models.history import HistoryText
from rejoinder.text.subwords import Subwords

SUBWORDS = Subwords([chr(0xFE4F), *"abcdefghijklmnopqrstuvwxyz0123456789: .,?!"])


def test_messages_are_joined_from_the_newest_to_the_oldest_without_the_input() -> None:
    assert HistoryText().join(["oldest", "older", "newest", "input"]) == "newest older oldest"


def test_each_message_may_have_its_number() -> None:
    assert HistoryText(numbered=True).join(["oldest", "newest", "input"]) == "0: newest 1: oldest"


def test_only_the_newest_messages_are_read() -> None:
    context = [str(i) for i in range(15)]
    assert HistoryText().join(context) == "13 12 11 10 9 8 7 6 5 4", "ten of them, and no 14"
    assert HistoryText(2).join(context) == "13 12"


def test_without_earlier_messages_the_text_is_empty() -> None:
    for numbered in (False, True):
        assert HistoryText(numbered=numbered).join(["input"]) == ""
        assert HistoryText(numbered=numbered).join(["", "  ", "\n", "input"]) == "", "blank ones are none"


def test_blank_messages_neither_count_nor_are_numbered() -> None:
    assert HistoryText(2, numbered=True).join(["c", "", "b", " ", "a", "input"]) == "0: a 1: b"


def test_the_cut_loses_the_oldest() -> None:
    context = ["oldest words", *["some words in between"] * 8, "newest words", "input"]
    ids, lengths = SUBWORDS.encode_ragged([HistoryText().join(context)], 60)
    assert lengths.tolist() == [60]
    assert SUBWORDS.decode(ids.tolist()).startswith("newest words some words")
    assert "oldest" not in SUBWORDS.decode(ids.tolist())


MESSAGES = st.one_of(st.text(max_size=6), st.text(max_size=3).map("your persona: ".__add__))


@settings(max_examples=200, deadline=None)
@given(st.lists(MESSAGES, max_size=5), st.booleans(), st.booleans())
def test_a_history_has_tokens_exactly_where_its_text_is_not_empty(
    messages: list[str], numbered: bool, persona_first: bool
) -> None:
    """Training knows a history by its tokens, encoding by its text: both must mean the same."""
    text = HistoryText(numbered=numbered, persona_first=persona_first).join([*messages, "input"])
    said = [message.removeprefix("your persona: ") if persona_first else message for message in messages]
    assert bool(SUBWORDS.encode(text)) == bool(text) == any(message.strip() for message in said)


PERSONA = ("your persona: i ski. your persona: i have a dog.", "partner's persona: i cook.", "older", "newest", "input")


def test_a_persona_is_an_old_message_if_not_asked_for() -> None:
    assert HistoryText().join(PERSONA) == f"newest older {PERSONA[1]} {PERSONA[0]}"


def test_a_persona_may_be_read_first_and_is_never_pushed_out() -> None:
    reading = HistoryText(2, numbered=True, persona_first=True)
    assert reading.join(PERSONA) == "i ski. i have a dog. 0: newest 1: older"
    apart = ("your persona: i ski.", "your persona: i have a dog.", *PERSONA[1:])
    assert reading.join(apart) == reading.join(PERSONA), "one message or one each"
    ids, _ = SUBWORDS.encode_ragged([reading.join([PERSONA[0], *["many words"] * 99, "input"])], 20)
    assert SUBWORDS.decode(ids.tolist()).startswith("i ski. i have")


def test_what_is_only_like_a_persona_stays_in_its_place() -> None:
    context = ("what is your persona: i ski", "newest", "input")
    assert HistoryText(persona_first=True).join(context) == "newest what is your persona: i ski"
