import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.errors import InputError
from rejoinder.models.dialogue import Dialogue, join
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
