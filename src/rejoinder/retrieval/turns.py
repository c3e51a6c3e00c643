"""Conversations by turns, and the newest turn by its parts.

What one side says in several messages is one turn. The newest one is cleaned and read by its
sentences, as `text.messages` finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from rejoinder.conversations import Context, Conversation, is_persona, spoken, truncate_history
from rejoinder.text.courtesy import asks, asks_again, calls, has_content, is_thanks, offers, words
from rejoinder.text.messages import Message, clean_message, read_message
from rejoinder.text.words.spelling import Speller, is_common

Spelling: TypeAlias = Callable[[], Speller] | None
MOST_MESSAGES = 4  # of one side, without roles, that a message which only asks again may belong to


@dataclass(frozen=True, slots=True)
class Reading:
    """A conversation as a search reads it: the history, and the newest message."""

    history: Context
    message: Message

    @property
    def context(self) -> Context:
        """The conversation as one context."""
        return [*self.history, self.message.text]

    @property
    def contexts(self) -> list[Context]:
        """The conversation once for each part of its newest message."""
        return [[*self.history, part] for part in self.message.parts]

    def with_history(self, history: Context) -> Reading:
        """Return the newest message after another history."""
        return replace(self, history=history)


def read_parts(
    conversation: Conversation, history: int | None, speller: Spelling = None
) -> Reading:
    """Return what a search reads of a conversation, and of at most `history` earlier messages.

    `speller` returns what corrects the newest message, and is called where it has a word that is
    not a common one.
    """
    *earlier, newest = _turns(spoken(conversation))
    message = read_message(newest)
    if speller is not None and not is_common(message.text):
        message = message.corrected(speller())
    kept = earlier if history is None else truncate_history([*earlier, newest], history)[:-1]
    return Reading(_clean_turns(kept), message)


def _clean_turns(turns: Sequence[str]) -> list[str]:
    return [text if is_persona(text) else clean_message(text) for text in turns]


def _turns(messages: Sequence[tuple[str | None, str]]) -> list[str]:
    """Return what each side says in one go, as lines.

    Without roles each message is a turn. But where the newest ones only ask again ("hello?"), the
    newest question counts, or they belong to what was told before.
    """
    turns: list[tuple[str | None, list[str]]] = []
    for role, text in messages:
        if turns and role is not None and turns[-1][0] == role:
            turns[-1][1].append(text)
        else:
            turns.append((role, [text]))
    texts = ["\n\n".join(lines) for _, lines in turns]
    is_known = turns[-1][0] is not None or len(turns) == 1
    if is_known or not _belongs_to_earlier(texts):
        return texts
    telling = [at for at, text in enumerate(texts) if _tells(text)]
    if not telling:
        return texts[: _fullest(texts) + 1] if asks_again(texts[-1]) else texts
    newest = telling[-1]
    if offers(texts[newest]):
        return texts
    if asks(texts[newest]):
        before = texts[:newest]
        return [
            *(text for text in before if is_persona(text) or has_content(text)),
            texts[newest],
        ]
    first = max(0, len(texts) - MOST_MESSAGES)
    while first < len(texts) - 1 and (turns[first][0] is not None or is_persona(texts[first])):
        first += 1
    told = [text for text in texts[first:] if not asks_again(text)]
    return [*texts[:first], "\n".join(told)]


def _belongs_to_earlier(texts: Sequence[str]) -> bool:
    """Return whether the newest of some messages asks for an answer to one before.

    Thanks do so right behind a question: who answers it says more than that.
    """
    *_, before, newest = texts
    is_expectant = is_thanks(newest) and asks(before)
    return asks_again(newest) or calls(newest) or is_expectant


def _tells(text: str) -> bool:
    """Return whether a message says what an answer is wanted to; a number alone does not."""
    is_worded = any(letter.isalpha() for letter in text)
    return is_worded and has_content(text) and not is_persona(text) and not calls(text)


def _fullest(texts: Sequence[str]) -> int:
    """Return which of some messages without content is meant: "I am happy" before "hello?"."""
    counts = [0 if is_persona(text) else len(words(text)) for text in texts]
    return max(range(len(texts)), key=lambda at: (counts[at], at))


def clean_context(conversation: Conversation) -> tuple[str, ...]:
    """Return the texts of a conversation as an example is kept: by turns, and cleaned."""
    *earlier, newest = _turns(spoken(conversation))
    return (*_clean_turns(earlier), clean_message(newest))
