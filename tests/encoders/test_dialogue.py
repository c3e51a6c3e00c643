import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.errors import InputError
from rejoinder.text.subwords import Subwords
from rejoinder.text.dialogue import Dialogue, join_response
from rejoinder.text.history import HistoryText
from tests.encoders.tiny_transformer import WORDS, tokenizer

S, NEWLINE = tokenizer().start_id, tokenizer().turn_id
messages = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
contexts = st.lists(messages, min_size=1, max_size=5)
LETTERS = Subwords([chr(0xFE4F), *"abcdefghijklmnopqrstuvwxyz0123456789: .,?!"])
PERSONA = (
    "your persona: i ski. your persona: i have a dog.",
    "partner's persona: i cook.",
    "older",
    "newest",
    "input",
)
NUMBERS = [str(number) for number in range(15)]
MESSAGES = st.one_of(st.text(max_size=6), st.text(max_size=3).map("your persona: ".__add__))


def reading(context_length=30, response_length=10):
    return Dialogue(tokenizer(), context_length, response_length, (S,), (S,), (NEWLINE,))


def ids_of(text):
    return tokenizer().encode_ragged([text])[0].tolist()


def rows(ids, lengths):
    return [piece.tolist() for piece in np.split(ids, np.cumsum(lengths)[:-1])]


def test_turns_stand_between_marks_with_newlines_between_them():
    [row] = rows(*reading().contexts([["hello there", " ", "how are you"]]))
    assert row == [S, *ids_of("hello there"), NEWLINE, *ids_of("how are you"), S]
    assert not {S, NEWLINE} & set(ids_of("[S] [NEWLINE] [MASK]")), "text cannot say special tokens"


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
    ids, lengths, types = join_response(before, behind, 1)
    wanted = [
        (x + y[1:], [0] * len(x) + [1] * len(y[1:]))
        for x, y in zip(rows(*before), rows(*behind), strict=True)
    ]
    assert rows(ids, lengths) == [text for text, _ in wanted]
    assert rows(types, lengths) == [kinds for _, kinds in wanted]


@pytest.mark.parametrize(
    ("context", "said"), [("a text", "a conversation is a list of messages"), ([], "context")]
)
def test_a_context_is_a_list_with_a_message(context, said):
    with pytest.raises(InputError, match=said):
        reading().contexts([context])


@pytest.mark.parametrize(
    ("settings", "context", "text"),
    [
        ({}, ["oldest", "older", "newest", "input"], "newest older oldest"),
        ({"numbered": True}, ["oldest", "newest", "input"], "0: newest 1: oldest"),
        ({}, NUMBERS, "13 12 11 10 9 8 7 6 5 4"),
        ({"messages": 2}, NUMBERS, "13 12"),
        ({"numbered": True}, ["input"], ""),
        ({}, ["", "  ", "\n", "input"], ""),
        ({"messages": 2, "numbered": True}, ["c", "", "b", " ", "a", "input"], "0: a 1: b"),
        ({}, PERSONA, f"newest older {PERSONA[1]} {PERSONA[0]}"),
        (
            {"messages": 2, "numbered": True, "persona_first": True},
            PERSONA,
            "i ski. i have a dog. 0: newest 1: older",
        ),
        (
            {"messages": 2, "numbered": True, "persona_first": True},
            ("your persona: i ski.", "your persona: i have a dog.", *PERSONA[1:]),
            "i ski. i have a dog. 0: newest 1: older",
        ),
        (
            {"persona_first": True},
            ("what is your persona: i ski", "newest", "x"),
            "newest what is your persona: i ski",
        ),
    ],
)
def test_a_history_is_read_from_the_newest_to_the_oldest(settings, context, text):
    assert HistoryText(**settings).join(context) == text


@settings(max_examples=60)
@given(st.lists(MESSAGES, max_size=5), st.booleans(), st.booleans())
def test_a_history_has_tokens_exactly_where_its_text_is_not_empty(
    messages, numbered, persona_first
):
    """Training knows a history by its tokens, encoding by its text: both must mean the same."""
    text = HistoryText(numbered=numbered, persona_first=persona_first).join([*messages, "input"])
    said = [
        message.removeprefix("your persona: ") if persona_first else message for message in messages
    ]
    assert bool(LETTERS.encode(text)) == bool(text) == any(message.strip() for message in said)
