"""A survey of a corpus before it is built: lengths, languages, personal data."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rejoinder.corpora.corpus import Corpus, Input
from rejoinder.corpora.forms.formats import no_response
from rejoinder.corpora.limits import MAX_HISTORY, MAX_WAY
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.redaction import KINDS, redact, redact_example
from rejoinder.corpora.schema import Example
from rejoinder.errors import InputError
from rejoinder.patterns import search_pattern
from rejoinder.progress import Advance, silent

SHOWN = 3  # examples
MEASURED_MESSAGES = 4_096  # are tokenised together, at least
JUDGED_WORDS = 20
ENGLISH_SHARE = 0.1
_WORD = search_pattern(r"[^\W\d_]+(?:'[^\W\d_]+)*")
# Common words of English that are rare in other languages. They tell whether a whole chat is
# English. Detectors of many languages (lingua: 100 MB; langdetect, py3langid) guess if a chat is
# short.
_ENGLISH = frozenset("""
    the and you i i'm it it's that this are were have has had my your our they their there what when
    where which who how why with from for of to on at by be been would can could should does did
    don't not but if about just like know yes thank thanks please get got want need any all one out
    up some very good too or as because
""".split())  # fmt: skip # noqa: SIM905


@dataclass
class Survey:
    """Figures of a corpus; lengths are of messages, in the unit of `measure`."""

    examples: int = 0
    messages_a_chat: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    judged: int = 0  # chats of `JUDGED_WORDS` words or more, or with letters that English has not
    not_english: int = 0  # of these: mostly other letters, or few common words (`ENGLISH_SHARE`)
    personal: Counter[str] = field(default_factory=Counter)  # places of personal data by kind
    with_personal: int = 0  # messages that hold any
    shown: list[Example] = field(default_factory=list)  # the first few

    def to_json(self, longest: int) -> dict[str, Any]:
        """Return figures as plain values; messages of more than `longest` are too long."""
        return {
            "chats": len(self.messages_a_chat),
            "messages": len(self.lengths),
            "examples": self.examples,
            "messages_a_chat": _spread(self.messages_a_chat),
            "lengths": _spread(self.lengths),
            "longest_read": longest,
            "too_long": sum(length > longest for length in self.lengths),
            "judged_chats": self.judged,
            "not_english": self.not_english,
            "personal": {kind: self.personal[kind] for kind in KINDS},
            "messages_with_personal": self.with_personal,
            "shown": [
                {"context": example.context, "response": example.response} for example in self.shown
            ],
        }


def survey(
    corpus: Corpus,
    inputs: Iterable[Input],
    settings: Any,
    reading: Reading,
    measure: Callable[[Sequence[str]], Iterable[int]],
    limit: int | None = None,
    progress: Advance = silent,
) -> Survey:
    """Read files, up to a limit of examples; `measure` returns the lengths of texts.

    InputError: the files hold no example, or the corpus has no `read`.
    """
    read = corpus.read
    if read is None:
        raise InputError(
            f"{corpus.name} cannot be looked at: its threads are scattered over its files"
        )
    files = list(inputs)
    history = reading.history
    if history is not None:  # long contexts distinguish one chat from the next
        reading.history = max(history, MAX_WAY)
    redacts = getattr(settings, "redact", False)
    raw = replace(settings, redact=False) if redacts else settings
    survey = Survey()
    examples = itertools.islice(_examples(read, files, reading, raw), limit)
    for texts in _blocks(_chats(examples, survey, reading.history), survey):
        survey.lengths += map(int, measure(texts))
        progress(len(texts))
    if not survey.examples:
        names = ", ".join(str(file.path) for file in files[:3])
        reason = ""
        if reading.roles:
            reason = f"; {no_response(reading.roles, asdict(settings), reading.notes)}"
        raise InputError(f"{names}: no example in {reading.lines} lines{reason}")
    if redacts and all(file.path.is_file() for file in files):  # a corpus may replace names, too
        again = Reading(skip_bad=reading.skip_bad)
        finished = _examples(read, files, again, settings)
        survey.shown = list(itertools.islice(finished, SHOWN))
    elif redacts:
        survey.shown = [redact_example(example) for example in survey.shown]
    survey.shown = [_truncated(example, history) for example in survey.shown]
    return survey


def _truncated(example: Example, history: int | None) -> Example:
    return example if history is None else replace(example, context=example.context[-1 - history :])


def _examples(
    read: Callable[[Path, Reading, Any], Iterator[Example]],
    files: Iterable[Input],
    reading: Reading,
    settings: Any,
) -> Iterator[Example]:
    """Yield the examples of files, each read for its split."""
    for file in files:
        file.prepare(reading)
        yield from read(file.path, reading, settings)


def _blocks(chats: Iterable[list[str]], survey: Survey) -> Iterator[list[str]]:
    """Count chats, and yield their messages, those of some chats together."""
    block: list[str] = []
    for messages in chats:
        survey.messages_a_chat.append(len(messages))
        _judge(messages, survey)
        block += messages
        if len(block) >= MEASURED_MESSAGES:
            yield block
            block = []
    if block:
        yield block


def _chats(examples: Iterable[Example], survey: Survey, history: int | None) -> Iterator[list[str]]:
    """Yield the messages of each chat, whose examples continue each other."""
    longest = (MAX_HISTORY if history is None else history) + 1
    chat: list[str] = []
    thread = ""
    for example in examples:
        survey.examples += 1
        if len(survey.shown) < SHOWN:
            survey.shown.append(example)
        messages = [*example.context, example.response]
        known = 0
        if example.thread == thread:
            known = _known(chat, messages, is_truncated=len(example.context) == longest)
        if chat and not known:
            yield chat
            chat = []
        chat += messages[known:]
        thread = example.thread
    if chat:
        yield chat


def _known(chat: list[str], messages: list[str], *, is_truncated: bool) -> int:
    """Return how many messages of an example are those of a chat that it continues; 0: none."""
    if len(messages) > len(chat) and messages[: len(chat)] == chat:
        return len(chat)
    return _overlap(chat, messages) if is_truncated else 0


def _overlap(chat: list[str], messages: list[str]) -> int:
    """Return how many of the first messages are the last ones of a chat."""
    for count in range(len(messages) - 1, 0, -1):
        if messages[count - 1] == chat[-1] and messages[:count] == chat[-count:]:
            return count
    return 0


def _judge(messages: Sequence[str], survey: Survey) -> None:
    """Count whether a chat is English, and its personal data."""
    text = " ".join(messages).casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    words = _WORD.findall(text)
    letters = "".join(words)
    if len(words) >= JUDGED_WORDS or not letters.isascii():
        common = sum(word in _ENGLISH for word in words) / len(words)
        foreign = sum(not letter.isascii() for letter in letters) > len(letters) / 2
        few = len(words) >= JUDGED_WORDS and common < ENGLISH_SHARE
        survey.judged += 1
        survey.not_english += foreign or few
    for message in messages:
        before = survey.personal.total()
        redact(message, survey.personal)
        survey.with_personal += survey.personal.total() > before


def _spread(values: Sequence[int]) -> dict[str, int]:
    """Return median, 95th percentile and maximum."""
    if not values:
        return {"median": 0, "p95": 0, "most": 0}
    median, high = np.quantile(values, [0.5, 0.95], method="inverted_cdf").tolist()
    return {"median": int(median), "p95": int(high), "most": max(values)}
