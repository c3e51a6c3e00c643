"""Build a data folder: read a source, drop duplicates, split by thread, write Parquet, account for everything."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rejoinder.corpora.deduplication import SeenPairs
from rejoinder.corpora.example import SPLITS, Example, Split
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.sources import check_source, read_source
from rejoinder.corpora.splits import split_of
from rejoinder.corpora.tables import ExampleWriter
from rejoinder.errors import InputError
from rejoinder.files import atomic_folder

SUMMARY = "data.json"
"""The file of a data folder that says what was read, kept and dropped, and that the folder is one."""
FORMAT = "rejoinder examples 1"


@dataclass
class SplitCounts:
    """What became of the examples of one split; read = kept + dropped."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    """By reason. `duplicate`: exactly this context and response came before."""


@dataclass
class Account:
    """What was read, kept and dropped. The fields that are also in `lines.Reading` mean the same."""

    source: str
    inputs: list[str]
    history: int
    limit: int | None
    lines: int = 0
    bad_lines: int = 0
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blank_messages: int = 0
    without_reply: int = 0
    splits: dict[Split, SplitCounts] = field(default_factory=lambda: {split: SplitCounts() for split in SPLITS})

    def to_json(self) -> dict[str, Any]:
        """As data.json holds it."""
        return {"format": FORMAT, **asdict(self)}


def build_data(
    source: str,
    inputs: Sequence[str | Path],
    folder: str | Path,
    *,
    reading: Reading | None = None,
    limit: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Account:
    """Build a data folder, whole or not at all; an earlier one is replaced when the new one is complete.

    Duplicates are dropped before anything is split, so that no pair is in two splits: the first one stays.

    Args:
        source: one of `sources.SOURCES`.
        inputs: the files to read, in this order; none for a source that brings its own data.
        folder: where `train-00000.parquet`, `valid-00000.parquet`, `test-00000.parquet` and `data.json` go.
        reading: what to do with bad lines, and how much history to keep.
        limit: stop when so many examples are kept.
        progress: called with 1 for each example read.

    Raises:
        InputError: bad input, no example at all, or a folder that holds something else.
    """
    check_source(source, inputs)
    _check_folder(Path(folder))
    reading = reading or Reading()
    account = Account(source, [str(path) for path in inputs], reading.history, limit)
    with atomic_folder(folder, marker=SUMMARY) as part:
        with contextlib.closing(read_source(source, inputs, reading)) as examples:  # type: ignore[type-var]
            _write_splits(examples, part, account, progress)
        account.lines, account.bad_lines, account.faults = reading.lines, reading.bad_lines, reading.faults
        account.notes = reading.notes
        account.blank_messages, account.without_reply = reading.blank_messages, reading.without_reply
        if not any(counts.kept for counts in account.splits.values()):
            raise InputError(_why_none(account))
        text = json.dumps(account.to_json(), indent=1, ensure_ascii=False)
        (part / SUMMARY).write_text(f"{text}\n", encoding="utf-8")
    return account


def _write_splits(
    examples: Iterable[Example], folder: Path, account: Account, progress: Callable[[int], object] | None
) -> None:
    seen, kept = SeenPairs(), 0
    with contextlib.ExitStack() as stack:
        writers = {split: stack.enter_context(ExampleWriter(folder / f"{split}-00000.parquet")) for split in SPLITS}
        for example in examples:
            split = split_of(example.thread)
            counts = account.splits[split]
            counts.read += 1
            if seen.add(example):
                writers[split].add(example)
                counts.kept += 1
                kept += 1
            else:
                counts.dropped["duplicate"] = counts.dropped.get("duplicate", 0) + 1
            if progress is not None:
                progress(1)
            if kept == account.limit:
                return


def _check_folder(folder: Path) -> None:
    """Refuse a folder that holds more than a data folder does: all of it would be replaced."""
    if not folder.is_dir() or not (summary := folder / SUMMARY).is_file():
        return  # what is left to refuse, atomic_folder refuses
    try:
        ours = str(json.loads(summary.read_text(encoding="utf-8"))["format"]).startswith("rejoinder examples")
    except (ValueError, LookupError, TypeError):
        ours = False
    others = [file.name for file in folder.iterdir() if file.name != SUMMARY and file.suffix != ".parquet"]
    if not ours or others:
        what = others[0] if others else f"a {SUMMARY} of something else"
        raise InputError(f"{folder} holds {what}, which is not ours to replace; name another folder")


def _why_none(account: Account) -> str:
    where = ", ".join(account.inputs[:3]) or account.source
    if account.bad_lines:
        bad = f"{account.bad_lines} of {account.lines} lines are bad"
        return f"{where}: no example, {bad}, the first: {account.faults[0]}"
    return f"{where}: no example in {account.lines} lines; a dialogue needs a message and a response to it"
