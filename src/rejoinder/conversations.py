"""Conversations as users have them, with roles or without, read into texts that encoders take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from rejoinder.checks import check_list
from rejoinder.errors import InputError, shown

AnyMessage = TypeVar("AnyMessage")

Context: TypeAlias = Sequence[str]
"""A conversation so far: its messages, oldest first. The newest one is the *input*, the others the
*history*."""

Conversation: TypeAlias = Sequence[str | Mapping[str, Any]]
"""A context as users have it: messages may also be {"role": ..., "content": text}, as chat APIs
write them, and the text may be in parts, [{"type": "text", "text": ...}]."""

PERSONA = "your persona: "
"""Before each statement of an old message that says who replies (as ParlAI's ConvAI2 has it; see
`text.dialogue`)."""

NO_TURNS = frozenset({"system", "developer", "tool", "function"})
"""Roles of what nobody said to anybody: instructions to a program, and what it looks up."""

TEXTS = "give a list of texts, such as ['Hello!', 'At noon.']"

CONVERSATIONS = "give a list of conversations, each a list of messages"

ContextPart: TypeAlias = Literal["all", "input", "history"]
"""The part of a context that is read: all that the model can read, input or history alone."""


def read_contexts(conversations: Sequence[Conversation]) -> list[Context]:
    """Return the texts of conversations, as `spoken` finds and `join_turns` joins them.

    Raises:
        InputError: a conversation is a text, has no message, or one that is neither a text nor a
            role with a text.
    """
    check_list(conversations, CONVERSATIONS)
    return [[text for _, text in join_turns(spoken(messages))] for messages in conversations]


def spoken(messages: Conversation) -> list[tuple[str | None, str]]:
    """Return role and text of each message.

    Those of `NO_TURNS`, and calls of tools, are left out.
    """
    check_list(messages, "a conversation is a list of messages, oldest first")
    turns: list[tuple[str | None, str]] = []
    for message in messages:
        if isinstance(message, str):
            turns.append((None, message))
            continue
        role = message.get("role") if isinstance(message, Mapping) else None
        if is_call(message) or is_instruction(role):
            continue
        text = content_text(message.get("content")) if isinstance(message, Mapping) else None
        if not isinstance(text, str) or not isinstance(role, str | None):
            raise InputError(
                f'a message is a text, or {{"role": ..., "content": text}}; given: {shown(message)}'
            )
        turns.append((role, text))
    if not turns:
        raise InputError("a context has no message; it needs at least one, oldest first")
    return turns


def is_instruction(role: object) -> bool:
    """Return whether a role is one of `NO_TURNS`, in any case."""
    return isinstance(role, str) and role.casefold() in NO_TURNS


def is_call(message: object) -> bool:
    """Return whether a message calls a tool and says nothing."""
    if not isinstance(message, Mapping) or not {"tool_calls", "function_call"} & message.keys():
        return False
    text = content_text(message.get("content"))
    return text is None or (isinstance(text, str) and not text.strip())


def content_text(content: object) -> object:
    """Return the text of a message's content, which chat APIs may give in parts.

    Parts that are no text, such as pictures, are left out. What is no list stays as it is.
    """
    if not isinstance(content, list):
        return content
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    return "\n".join(text for text in texts if isinstance(text, str))


def join_turns(messages: Iterable[tuple[str | None, str]]) -> list[tuple[str | None, str]]:
    """Join what one role says in several messages, one after the other, by a space.

    Those without a role stay apart.
    """
    turns: list[tuple[str | None, list[str]]] = []
    for role, text in messages:
        if turns and role is not None and turns[-1][0] == role:
            turns[-1][1].append(text)
        else:
            turns.append((role, [text]))
    return [(role, " ".join(texts)) for role, texts in turns]


def is_persona(message: str) -> bool:
    """Return whether a message says what the one who replies is like."""
    return message.lstrip().startswith(PERSONA)


def truncate_history(context: Sequence[AnyMessage], count: int) -> Sequence[AnyMessage]:
    """Return the newest message, at most `count` earlier ones, and the personas before them."""
    positions = [at for at, message in enumerate(context[:-1]) if not _is_persona_text(message)]
    if count >= len(positions):
        return context
    first = [*positions, len(context) - 1][-1 - count]
    return [*filter(_is_persona_text, context[:first]), *context[first:]]


def _is_persona_text(message: object) -> bool:
    return isinstance(message, str) and is_persona(message)


def read_texts(texts: Sequence[str]) -> list[str]:
    """Return texts as a list.

    A single text, which would be read letter by letter, or what is none is an InputError.
    """
    check_list(texts, TEXTS)
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{TEXTS}; given: {shown(text)}")
    return list(texts)
