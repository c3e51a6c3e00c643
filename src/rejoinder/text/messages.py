"""A message as a customer writes it, read into what is searched for: one place for every door.

A message is cleaned of what mail programs and habits put around it. If it has several sentences, it
is read whole and by those of its sentences that say something. A message of one sentence is read as
it is, and without the courtesy in it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rejoinder.html_text import is_html, text_of_html
from rejoinder.text.courtesy import asks, calls, has_content, says_when, words
from rejoinder.text.mails.cleaning import clean_mail
from rejoinder.text.mails.courtesy import greets_group
from rejoinder.text.references import refers_back
from rejoinder.text.sentences.clauses import begins_with_greeting, is_courtesy, without_courtesy
from rejoinder.text.sentences.frames import without_frame
from rejoinder.text.sentences.questions import (
    is_elliptical,
    is_question,
    question_clauses,
    with_mark,
)
from rejoinder.text.sentences.splitting import split_sentences
from rejoinder.text.transcripts import customer_lines
from rejoinder.text.wording import plain_wording
from rejoinder.text.words.foreign import (
    is_clearly_english,
    is_foreign,
    is_other_language,
    is_sentence_of_other,
)
from rejoinder.text.words.spelling import Correction, Speller

MAX_LETTERS = 20_000  # of a message that are read: half from its beginning, half from its end
KEPT_CLEAN = 4096  # messages: those of a chat come again with each turn
KEPT_READ = 256  # messages: a newest one is asked for several times until it is answered
MAX_PARTS = 24  # sentences of a message that are searched for
WHOLE_WORDS = 40
"""Up to so many words a message of several sentences is also searched for as a whole."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it is read.

    `parts` are what is searched for, the best of which counts: a sentence, and what it is without
    its courtesy; or the sentences of a message and, if it is not long, all of it.
    """

    parts: tuple[str, ...]
    text: str  # without what was cleaned away
    cut: bool = False  # whether some of its text is not read
    corrections: tuple[Correction, ...] = ()
    is_foreign: bool = False  # whether most words are neither English nor of the index

    @property
    def is_single(self) -> bool:
        """Return whether it is read as one text."""
        return len(self.parts) == 1

    def notes(self) -> dict[str, Any]:
        """Return what a program should know of how the message was read; {}: as it is."""
        notes: dict[str, Any] = {}
        if not self.is_single:
            notes["parts"] = len(self.parts)
        if self.cut:
            notes["cut"] = True
        if self.corrections:
            notes["corrected"] = {
                correction.written: correction.read for correction in self.corrections
            }
        if self.is_foreign:
            notes["language"] = "unknown"
        return notes

    def corrected(self, speller: Speller) -> Message:
        """Return the message with its typos put right.

        Beside English sentences those of other languages are not read: they say the same, or stand
        below a mail.
        """
        own = self._in_english(speller)
        if own is not None:
            return own.corrected(speller)
        if is_other_language(self.text, speller.own):
            return replace(self, is_foreign=True)
        parts = [speller.correct(part) for part in self.parts]
        changes = dict.fromkeys(change for _, changed in parts for change in changed)
        if not changes:
            return replace(self, is_foreign=is_foreign(self.text, speller.own))
        text, _ = speller.correct(self.text)
        read = tuple(dict.fromkeys(part for part, _ in parts))
        return replace(self, parts=read, text=text, corrections=tuple(changes))

    def _in_english(self, speller: Speller) -> Message | None:
        """Return the message without sentences of other languages; None: all or none are such."""
        own = speller.own
        read = () if self.is_single else self.parts
        foreign = [part for part in read if is_sentence_of_other(part, own)]
        parts = tuple(
            part for part in self.parts if not any(sentence in part for sentence in foreign)
        )
        if not foreign or not any(is_clearly_english(part, own) for part in parts):
            return None
        return replace(self, parts=parts, text=" ".join(_outermost(parts)))


def _outermost(parts: Sequence[str]) -> list[str]:
    """Return the parts that are in no other one."""
    return [part for part in parts if sum(part.rstrip("?") in other for other in parts) == 1]


@dataclass(frozen=True, slots=True)
class _Clean:
    """A message without what is around it, and its sentences."""

    text: str
    sentences: tuple[str, ...]
    cut: bool


@functools.lru_cache(maxsize=KEPT_READ)
def read_message(text: str) -> Message:
    """Return what a message says, and the parts by which it is searched for."""
    clean = _clean(text)
    if len(clean.sentences) < 2 and not question_clauses(clean.text):
        return Message(_read_alone(clean.text), clean.text, clean.cut)
    is_whole = len(clean.text.split()) <= WHOLE_WORDS
    sentences = clean.sentences if is_whole else tuple(_with_subjects(clean.sentences))
    telling = list(dict.fromkeys(itertools.chain.from_iterable(map(_told, sentences))))
    if not telling:
        rest = " ".join(sentence for sentence in clean.sentences if not calls(sentence))
        return Message((rest or clean.text,), clean.text, clean.cut)
    is_long = len(telling) > MAX_PARTS
    if is_long:
        telling = [*telling[: MAX_PARTS // 2], *telling[-MAX_PARTS // 2 :]]
    whole = [_without_greetings(clean.sentences)] if is_whole else []
    return Message(tuple(dict.fromkeys([*whole, *telling])), clean.text, clean.cut or is_long)


@functools.lru_cache(maxsize=KEPT_CLEAN)
def _clean(text: str) -> _Clean:
    """Return a message without what mail programs and habits put around it."""
    if is_html(text):
        text = text_of_html(text, quote_mark="> ") or text
    is_cut = len(text) > MAX_LETTERS
    if is_cut:
        text = f"{text[: MAX_LETTERS // 2]}\n{text[-MAX_LETTERS // 2 :]}"
    clean = clean_mail(plain_wording(customer_lines(text)))
    sentences = tuple(_as_question(without_frame(sentence)) for sentence in split_sentences(clean))
    if "\n" in clean:
        clean = " ".join(clean.split())
    if len(sentences) < 2:
        clean = _as_question(without_frame(clean))
    return _Clean(clean, sentences, is_cut)


def _as_question(sentence: str) -> str:
    """Return a sentence with a question mark where a question ends with "!"."""
    return with_mark(sentence) if sentence.endswith("!") else sentence


def _read_alone(sentence: str) -> tuple[str, ...]:
    """Return what a sentence is searched for by: without its courtesy and, maybe, as it is.

    Greetings and thanks may have replies of their own: a question or whatever begins with a
    greeting means none of these, but "You solved my problem, thanks" does.
    """
    rest = without_courtesy(sentence)
    courtesy = sentence.replace(rest, " ")
    is_named = has_content(courtesy) and not greets_group(courtesy.strip())
    is_meant = is_named or says_when(courtesy) or is_courtesy(rest)
    is_asked = asks(rest) or is_question(words(rest)) or begins_with_greeting(sentence)
    if is_asked and not is_meant:
        return (rest,)
    return tuple(dict.fromkeys([sentence, rest]))


def _without_greetings(sentences: Sequence[str]) -> str:
    """Return sentences without those before the first and behind the last that says something.

    The first loses its greeting.
    """
    told = [position for position, sentence in enumerate(sentences) if not is_courtesy(sentence)]
    first, *rest = sentences[told[0] : told[-1] + 1]
    return " ".join([_read_alone(first)[0], *rest])


def _with_subjects(sentences: Sequence[str]) -> Iterator[str]:
    """Yield sentences; before one that asks, it and the one that tells of what, as one.

    What asks about that, "How do I return it?", says too little alone.
    """
    for before, sentence in itertools.pairwise(("", *sentences)):
        is_told = has_content(before) and not asks(before) and not is_courtesy(before)
        is_open = is_told and _is_open(sentence)
        if is_open or (is_told and has_content(sentence) and asks(sentence)):
            yield f"{before} {sentence}"
        if not is_open:
            yield sentence


def _is_open(sentence: str) -> bool:
    """Return whether a sentence asks about the one before it.

    It refers back, has no verb ("Which lamp?"), or is a question without content: "What now?".
    """
    if not asks(sentence) or calls(sentence) or is_courtesy(sentence):
        return False
    if not has_content(sentence):
        return with_mark(sentence).endswith(("?", "\uff1f"))
    return is_elliptical(sentence) or refers_back(sentence)


def _told(sentence: str) -> list[str]:
    """Return what a sentence says, and the questions within it and what is before them.

    It loses its greeting and, if it asks, all of its courtesy; little would be left of others.
    """
    if not has_content(sentence) or is_courtesy(sentence):
        return []
    rest = without_courtesy(sentence)
    whole = rest if asks(rest) else _read_alone(sentence)[0]
    return [whole, *question_clauses(whole)]


def clean_message(text: str) -> str:
    """Return a message without what mail programs and habits put around it."""
    return _clean(text).text


def clean_messages(texts: Sequence[str]) -> list[str]:
    """Return messages as `clean_message` does."""
    return [clean_message(text) for text in texts]
