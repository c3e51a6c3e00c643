"""What became of everything that was read; `data.json` in a data folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rejoinder.corpora.example import SPLITS, Split
from rejoinder.corpora.lines import Counts
from rejoinder.files import Kind

SUMMARY = "data.json"
"""The file of a data folder that says what was read, kept and dropped, and that the folder is one."""
FORMAT = "rejoinder examples 1"
FOLDER = Kind(
    "a folder of examples",
    SUMMARY,
    lambda account: account["format"].startswith("rejoinder examples"),
    (SUMMARY, *(f"{split}-*.parquet" for split in SPLITS)),
)


@dataclass
class SplitCounts:
    """What became of the examples of one split; read = kept + dropped."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    """By reason. `duplicate`: exactly this context and response (and candidates) came before."""


@dataclass
class Account(Counts):
    """What was read, kept and dropped; `dropped` is what the corpus' rules left out before anything was split."""

    source: str
    inputs: list[str]
    """As they were given, such as `test=FILE`."""
    settings: dict[str, Any]
    """Of the corpus, every default written out."""
    history: int | None
    """Messages kept before the newest one of a context; None: all."""
    limit: int | None
    splits: dict[Split, SplitCounts] = field(default_factory=lambda: {split: SplitCounts() for split in SPLITS})

    def add_examples(self, split: Split, read: int, copies: int) -> None:
        """Enter examples of a split, and how many of them are copies."""
        counts = self.splits[split]
        counts.read += read
        counts.kept += read - copies
        if copies:
            counts.dropped["duplicate"] = counts.dropped.get("duplicate", 0) + copies

    def to_json(self) -> dict[str, Any]:
        """Return what data.json holds."""
        facts = asdict(self)
        order = ["source", "inputs", "settings", "history", "limit", *self.counts(), "splits"]
        return {"format": FORMAT, **{name: facts[name] for name in order}}

    def why_nothing_kept(self) -> str:
        """Explain in one line why a job gave no example."""
        where = ", ".join(self.inputs[:3]) or self.source
        if self.bad_lines:
            return f"{where}: no example, {self.bad_lines} of {self.lines} lines are bad, the first: {self.faults[0]}"
        why = "a dialogue needs a message and a response to it"
        if self.dropped:
            why = f"left out: {', '.join(f'{count:,} {reason}' for reason, count in self.dropped.items())}"
        return f"{where}: no example in {self.lines} lines; {why}"


def limits_of_history(account: Mapping[str, Any]) -> str:
    """Return the options that cut contexts, with their values: "--history 10"."""
    history = account["history"]
    limits = [f"--history {'all' if history is None else history}"]
    if "depth" in account["settings"]:  # Reddit's: messages of a context, the newest included
        limits.append(f"--set depth={account['settings']['depth']}")
    return ", ".join(limits)


def kept_messages(account: Mapping[str, Any]) -> float:
    """Return how many messages a context has at most before its newest one; infinity where all are kept."""
    limits = [account["history"], account["settings"].get("depth", math.inf) - 1]
    return min(limit for limit in limits if limit is not None)
