"""The summary of a data folder, `data.json`: what was read, kept and dropped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rejoinder.corpora.forms.formats import no_response
from rejoinder.corpora.lines import Counts
from rejoinder.corpora.splits import SPLITS, Split
from rejoinder.folder_kinds import Kind

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
            reason = no_response(self.roles, self.settings, self.notes)
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
