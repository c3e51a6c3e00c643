"""A data folder: a survey before it is built, its work folder, and its summary."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from rejoinder.corpora.corpus import Corpus, Input
from rejoinder.corpora.formats import no_response
from rejoinder.corpora.lines import Counts, Reading
from rejoinder.corpora.redaction import KINDS, redact, redact_example
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import SPLITS, Split
from rejoinder.errors import InputError
from rejoinder.files import (
    Kind,
    atomic_file,
    discard,
    lock_path,
    locked,
    name_path_on_enospc,
    remove,
    remove_leftovers,
)
from rejoinder.patterns import search_pattern
from rejoinder.progress import Advance, silent

# A survey of a corpus before it is built: lengths, languages, personal data.

SHOWN = 3  # examples
SHOWN_CHATS = 256  # that are tokenised together
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
    reading.history = None  # whole contexts distinguish one chat from the next
    redacts = getattr(settings, "redact", False)
    raw = replace(settings, redact=False) if redacts else settings
    survey = Survey()
    examples = (example for file in files for example in read(file.path, reading, raw))
    chats = _chats(itertools.islice(examples, limit), survey)
    while block := list(itertools.islice(chats, SHOWN_CHATS)):
        for messages in block:
            survey.messages_a_chat.append(len(messages))
            _judge(messages, survey)
        texts = [message for messages in block for message in messages]
        survey.lengths += map(int, measure(texts))
        progress(len(texts))
    if not survey.examples:
        names = ", ".join(str(file.path) for file in files[:3])
        reason = ""
        if reading.roles:
            reason = f"; {no_response(reading.roles, asdict(settings))}"
        raise InputError(f"{names}: no example in {reading.lines} lines{reason}")
    if redacts and all(file.path.is_file() for file in files):  # a corpus may replace names, too
        again = Reading(skip_bad=reading.skip_bad)
        finished = (example for file in files for example in read(file.path, again, settings))
        survey.shown = list(itertools.islice(finished, SHOWN))
    elif redacts:
        survey.shown = [redact_example(example) for example in survey.shown]
    survey.shown = [_truncated(example, history) for example in survey.shown]
    return survey


def _truncated(example: Example, history: int | None) -> Example:
    return example if history is None else replace(example, context=example.context[-1 - history :])


def _chats(examples: Iterable[Example], survey: Survey) -> Iterator[tuple[str, ...]]:
    """Yield the messages of each chat: of examples that continue each other, those of the last."""
    chat: tuple[str, ...] = ()
    for example in examples:
        survey.examples += 1
        if len(survey.shown) < SHOWN:
            survey.shown.append(example)
        messages = (*example.context, example.response)
        if chat and messages[: len(chat)] != chat:
            yield chat
        chat = messages
    if chat:
        yield chat


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


# The work folder of a job, `.NAME.work`, with which a stopped job continues where it was.
#
# `job.json` identifies the job; `done/` holds the results of finished tasks; the rest are the
# tasks' files, whole or absent. They survive a kill, but not a restart of the machine.

DONE = "done"
_JOB = "job.json"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # only Linux has it


class WorkFolderError(InputError):
    """The work folder cannot be used."""


class NothingKeptError(InputError):
    """A job gave no example, so its work folder is not kept."""


def work_folder(output: str | Path) -> Path:
    """Return the folder that holds the work for an output folder until it is complete."""
    target = Path(os.path.realpath(output))
    return target.parent / f".{target.name}.work"


@contextlib.contextmanager
def open_work(
    output: str | Path, job: Mapping[str, Any], temporary: Sequence[str]
) -> Iterator[Path]:
    """Lock the work folder of a job and yield it, with the finished tasks of an earlier run.

    `temporary` names its folders of running tasks, which are emptied. The work folder is removed at
    the end; after an error or Ctrl-C it stays if any task was finished. WorkFolderError: another
    process works in it, or it was not written by Rejoinder.
    """
    path = work_folder(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(lock_path(path), f"{output} is being made"))
        except InputError as error:
            raise WorkFolderError(str(error)) from None
        remove_leftovers(path.parent, path.name)
        boot = _BOOT_ID.read_text(encoding="utf-8").strip() if _BOOT_ID.exists() else ""
        _prepare(path, json.dumps({**job, "boot": boot}, indent=1, default=str), temporary)
        try:
            with name_path_on_enospc(path):
                yield path
        except BaseException as error:
            if isinstance(error, NothingKeptError) or not any((path / DONE).iterdir()):
                _discard(path)
            raise
        _discard(path)


def _prepare(path: Path, job: str, temporary: Sequence[str]) -> None:
    """Keep the finished tasks of the same job; remove everything else."""
    file = path / _JOB
    earlier = file.read_text(encoding="utf-8") if file.exists() else None
    entries = path.iterdir() if path.exists() else []
    if earlier is None and any(not entry.match(".*.part") for entry in entries):
        raise WorkFolderError(
            f"{path} was not written by Rejoinder, so it is not removed; "
            "move it, or name another output folder"
        )
    if earlier not in (None, job):
        discard(path)
    path.mkdir(exist_ok=True)
    if not file.exists():
        with atomic_file(file) as part:
            part.write_text(job, encoding="utf-8")
    for unfinished in path.rglob(".*.part"):
        remove(unfinished)
    for name in temporary:
        remove(path / name)
    (path / DONE).mkdir(exist_ok=True)


def _discard(path: Path) -> None:
    with contextlib.suppress(OSError):  # the output is complete, or another error is being raised
        discard(path)


# The summary of a data folder, `data.json`: what was read, kept and dropped.

SUMMARY = "data.json"  # identifies a data folder
FORMAT = "rejoinder examples 1"
FOLDER = Kind(
    "a folder of examples",
    SUMMARY,
    lambda content: content["format"].startswith("rejoinder examples"),
    (SUMMARY, *(f"{split}-*.parquet" for split in SPLITS)),
)


@dataclass
class SplitCounts:
    """Numbers of the examples of one split; read = kept + dropped."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # by reason; `duplicate`: seen before

    def add(self, read: int, duplicates: int) -> None:
        """Count examples, of which some are duplicates."""
        self.read += read
        self.kept += read - duplicates
        if duplicates:
            self.dropped["duplicate"] = self.dropped.get("duplicate", 0) + duplicates


@dataclass
class BuildSummary(Counts):
    """Counts of read, kept and dropped records; `dropped` counts before the split."""

    source: str
    inputs: list[str]  # as the user wrote them, such as `test=FILE`
    settings: dict[str, Any]  # of the corpus, every default written out
    history: int | None  # messages kept before the newest one of a context; None: all
    limit: int | None
    splits: dict[Split, SplitCounts] = field(
        default_factory=lambda: {split: SplitCounts() for split in SPLITS}
    )

    def count(
        self,
        counts: Counts,
        rows: Iterable[Mapping[Split, int]],
        duplicates: Mapping[tuple[int, Split], int],
    ) -> None:
        """Set the counts of a reading; add the rows of its chunks and their duplicates."""
        for item in fields(Counts):
            setattr(self, item.name, getattr(counts, item.name))
        for number, by_split in enumerate(rows):
            for split, count in by_split.items():
                self.splits[split].add(count, duplicates.get((number, split), 0))

    def to_json(self) -> dict[str, Any]:
        """Return the content of data.json."""
        values = asdict(self)
        counts = [item.name for item in fields(Counts)]
        order = ["source", "inputs", "settings", "history", "limit", *counts, "splits"]
        return {"format": FORMAT, **{name: values[name] for name in order}}

    def explain_empty(self) -> str:
        """Explain in one line why a job gave no example."""
        files = ", ".join(self.inputs[:3]) or self.source
        if self.bad_lines:
            return (
                f"{files}: no example, {self.bad_lines} of {self.lines} lines are bad, "
                f"the first: {self.faults[0]}"
            )
        reason = "a dialogue needs a message and a response to it"
        if self.dropped:
            dropped = [f"{count:,} {name}" for name, count in self.dropped.items()]
            reason = f"left out: {', '.join(dropped)}"
        if self.roles:
            reason = no_response(self.roles, self.settings)
        return f"{files}: no example in {self.lines} lines; {reason}"


def limits_of_history(summary: Mapping[str, Any]) -> str:
    """Return the options that truncate contexts, with their values: "--history 10"."""
    history = summary["history"]
    limits = [f"--history {'all' if history is None else history}"]
    if "depth" in summary["settings"]:  # Reddit's, which includes the newest message
        limits.append(f"--set depth={summary['settings']['depth']}")
    return ", ".join(limits)


def kept_messages(summary: Mapping[str, Any]) -> float:
    """Return how many messages a context has at most before its newest one; infinity: all."""
    limits = [summary["history"], summary["settings"].get("depth", math.inf) - 1]
    return min(limit for limit in limits if limit is not None)
