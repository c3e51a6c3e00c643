import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.errors import InputError
from rejoinder.models.dialogue import Dialogue, HistoryText, join
from rejoinder.text.subwords import Subwords
from tests.models.tiny_transformer import WORDS, tokenizer

S, NEWLINE = tokenizer().start_id, tokenizer().turn_id
messages = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
contexts = st.lists(messages, min_size=1, max_size=5)


def reading(context_length=30, response_length=10):
    return Dialogue(tokenizer(), context_length, response_length, (S,), (S,), (NEWLINE,))


def ids_of(text):
    return tokenizer().encode_ragged([text])[0].tolist()


def rows(ids, lengths):
    return [piece.tolist() for piece in np.split(ids, np.cumsum(lengths)[:-1])]


def test_turns_stand_between_marks_with_newlines_between_them():
    [row] = rows(*reading().contexts([["hello there", " ", "how are you"]]))
    assert row == [S, *ids_of("hello there"), NEWLINE, *ids_of("how are you"), S]


@given(st.lists(contexts, min_size=1, max_size=5))
def test_a_long_context_loses_its_oldest_tokens(many):
    short, whole = (rows(*reading(length).contexts(many)) for length in (9, 10_000))
    for cut, full in zip(short, whole, strict=True):
        assert cut == ([S, *full[1:-1][-7:], S] if len(full) > 2 else [S, S])


def test_a_long_response_loses_its_last_tokens():
    [row] = rows(*reading(response_length=6).responses(["cats they sleep all day long in the sun"]))
    assert row == [S, *ids_of("cats they sleep all day long in the sun")[:4], S]


@given(st.lists(st.tuples(contexts, messages), min_size=1, max_size=5))
def test_a_joined_text_is_context_then_response_with_one_mark_between(pairs):
    dialogue = reading()
    before = dialogue.contexts([context for context, _ in pairs])
    behind = dialogue.responses([response for _, response in pairs])
    ids, lengths, types = join(before, behind, 1)
    wanted = [(x + y[1:], [0] * len(x) + [1] * len(y[1:])) for x, y in zip(rows(*before), rows(*behind), strict=True)]
    assert rows(ids, lengths) == [text for text, _ in wanted]
    assert rows(types, lengths) == [kinds for _, kinds in wanted]


def test_text_cannot_say_special_tokens():
    assert not {S, NEWLINE} & set(ids_of("[S] [NEWLINE] [MASK]"))


@pytest.mark.parametrize("context", ["a text", []])
def test_a_context_is_a_list_with_a_message(context):
    with pytest.raises(InputError, match="context"):
        reading().contexts([context])


LETTERS = Subwords([chr(0xFE4F), *"abcdefghijklmnopqrstuvwxyz0123456789: .,?!"])


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
    ids, lengths = LETTERS.encode_ragged([HistoryText().join(context)], 60)
    assert lengths.tolist() == [60]
    assert LETTERS.decode(ids.tolist()).startswith("newest words some words")
    assert "oldest" not in LETTERS.decode(ids.tolist())


MESSAGES = st.one_of(st.text(max_size=6), st.text(max_size=3).map("your persona: ".__add__))


@settings(max_examples=60, deadline=None)
@given(st.lists(MESSAGES, max_size=5), st.booleans(), st.booleans())
def test_a_history_has_tokens_exactly_where_its_text_is_not_empty(
    messages: list[str], numbered: bool, persona_first: bool
) -> None:
    """Training knows a history by its tokens, encoding by its text: both must mean the same."""
    text = HistoryText(numbered=numbered, persona_first=persona_first).join([*messages, "input"])
    said = [message.removeprefix("your persona: ") if persona_first else message for message in messages]
    assert bool(LETTERS.encode(text)) == bool(text) == any(message.strip() for message in said)


PERSONA = ("your persona: i ski. your persona: i have a dog.", "partner's persona: i cook.", "older", "newest", "input")


def test_a_persona_is_an_old_message_if_not_asked_for() -> None:
    assert HistoryText().join(PERSONA) == f"newest older {PERSONA[1]} {PERSONA[0]}"


def test_a_persona_may_be_read_first_and_is_never_pushed_out() -> None:
    reading = HistoryText(2, numbered=True, persona_first=True)
    assert reading.join(PERSONA) == "i ski. i have a dog. 0: newest 1: older"
    apart = ("your persona: i ski.", "your persona: i have a dog.", *PERSONA[1:])
    assert reading.join(apart) == reading.join(PERSONA), "one message or one each"
    ids, _ = LETTERS.encode_ragged([reading.join([PERSONA[0], *["many words"] * 99, "input"])], 20)
    assert LETTERS.decode(ids.tolist()).startswith("i ski. i have")


def test_what_is_only_like_a_persona_stays_in_its_place() -> None:
    context = ("what is your persona: i ski", "newest", "input")
    assert HistoryText(persona_first=True).join(context) == "newest what is your persona: i ski"
