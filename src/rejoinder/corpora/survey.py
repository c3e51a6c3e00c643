"""What a corpus holds, before anything is built of it: lengths, messages too long, other languages, personal data."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rejoinder.corpora.corpus import Corpus, Input
from rejoinder.corpora.example import Example
from rejoinder.corpora.examples import no_response
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.personal import KINDS, redact, redact_example
from rejoinder.errors import InputError
from rejoinder.progress import Advance, silent

SHOWN = 3  # examples
CHATS = 256  # looked at together
JUDGED_WORDS, ENGLISH_SHARE = 20, 0.1
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
# Common words of English that are rare in other languages. Whether a whole chat is English takes no model; detectors
# that tell many languages apart (lingua: 100 MB; langdetect, py3langid) guess where a chat has few words.
_ENGLISH = frozenset("""
    the and you i i'm it it's that this are were have has had my your our they their there what when where which who how
    why with from for of to on at by be been would can could should does did don't not but if about just like know yes
    thank thanks please get got want need any all one out up some very good too or as because
""".split())  # fmt: skip # noqa: SIM905


@dataclass
class Survey:
    """What was found; lengths by message, in the unit of `measure`."""

    examples: int = 0
    messages_a_chat: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    judged: int = 0  # chats of `JUDGED_WORDS` or more, or of other letters than English has
    not_english: int = 0  # of these: most letters are others, or too few words (`ENGLISH_SHARE`) common English ones
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
            "shown": [{"context": each.context, "response": each.response} for each in self.shown],
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
    """Read files, up to a limit of examples; `measure` gives the lengths of texts. InputError: there is no example."""
    if (read := corpus.read) is None:
        raise InputError(f"{corpus.name} cannot be looked at: its threads are scattered over its files")
    inputs, found, kept = list(inputs), Survey(), reading.history
    reading.history = None  # whole contexts tell one chat from the next
    redacts = getattr(settings, "redact", False)
    raw = replace(settings, redact=False) if redacts else settings
    examples = (example for given in inputs for example in read(given.path, reading, raw))
    chats = _chats(itertools.islice(examples, limit), found)
    while block := list(itertools.islice(chats, CHATS)):
        for messages in block:
            found.messages_a_chat.append(len(messages))
            _judge(messages, found)
        found.lengths += map(int, measure([message for messages in block for message in messages]))
        progress(sum(map(len, block)))
    if not found.examples:
        why = f"; {no_response(reading.roles, settings.respond)}" if reading.roles else ""
        names = ", ".join(str(given.path) for given in inputs[:3])
        raise InputError(f"{names}: no example in {reading.lines} lines{why}")
    found.shown = [_cut(redact_example(example) if redacts else example, kept) for example in found.shown]
    return found


def _cut(example: Example, history: int | None) -> Example:
    return example if history is None else replace(example, context=example.context[-1 - history :])


def _chats(examples: Iterable[Example], found: Survey) -> Iterator[tuple[str, ...]]:
    chat: tuple[str, ...] = ()
    for example in examples:
        found.examples += 1
        if len(found.shown) < SHOWN:
            found.shown.append(example)
        messages = (*example.context, example.response)
        if chat and messages[: len(chat)] != chat:
            yield chat
        chat = messages
    if chat:
        yield chat


def _judge(messages: Sequence[str], found: Survey) -> None:
    words = _WORD.findall(" ".join(messages).casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))
    letters = "".join(words)
    if len(words) >= JUDGED_WORDS or not letters.isascii():
        common = sum(word in _ENGLISH for word in words) / len(words)
        strange = sum(not letter.isascii() for letter in letters) > len(letters) / 2
        found.judged += 1
        found.not_english += strange or (len(words) >= JUDGED_WORDS and common < ENGLISH_SHARE)
    for message in messages:
        before = found.personal.total()
        redact(message, found.personal)
        found.with_personal += found.personal.total() > before


def _spread(values: Sequence[int]) -> dict[str, int]:
    """Return the median, what nineteen of twenty have at most, and the most."""
    if not values:
        return {"median": 0, "p95": 0, "most": 0}
    half, most = np.quantile(values, [0.5, 0.95], method="inverted_cdf").tolist()
    return {"median": int(half), "p95": int(most), "most": max(values)}
