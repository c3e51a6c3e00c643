"""Files of replies that verbs read: their options, forms, and what is shown of them."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from rejoinder.cli.arguments import SplitOption
from rejoinder.errors import InputError
from rejoinder.progress import counted, note, track

if TYPE_CHECKING:
    from rejoinder.corpora.forms.choice import Choice
    from rejoinder.corpora.lines import Reading
    from rejoinder.corpora.schema import Candidate

SHOWN = 5  # replies of a survey, and questions of each

ReplyDryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Show what the file holds without writing anything.")
]


MOST_KEPT = 100_000  # replies that are kept from their counting to their encoding


@dataclass
class ReplyFile:
    """Replies that are checked and counted before they are encoded.

    A large file is read twice; a pipe cannot be, so all of its replies are kept.
    """

    path: Path
    split: SplitOption | None
    limit: int | None
    deduplicate: bool
    choice: Choice
    _counted: list[Candidate] | None = field(default=None, init=False, repr=False)

    def read(
        self, known: Sequence[str] = (), reading: Reading | None = None
    ) -> Iterator[Candidate]:
        """Yield the replies; on request without duplicates of each other or of known ones."""
        from rejoinder.corpora.registry.candidates import distinct, read_candidates

        if reading is None and self._counted is not None:
            return iter(self._counted)
        replies = read_candidates(self.path, self.split, self.choice, reading)
        return itertools.islice(
            distinct(replies, known) if self.deduplicate else replies, self.limit
        )

    def total(self, known: Sequence[str] = ()) -> int:
        """Return the number of replies; print how the file was understood."""
        from rejoinder.corpora.lines import Reading

        total = 0
        reading = Reading()
        most = MOST_KEPT if self.path.is_file() or self.path.is_dir() else sys.maxsize
        counted: list[Candidate] = []
        with track(f"Reading {self.path}", unit="replies") as advance:
            for total, candidate in enumerate(self.read(known, reading), 1):
                advance(1)
                if total <= most:
                    counted.append(candidate)
        if total <= most:
            self._counted = counted
        for text in (*reading.notes, *_left_out(reading.dropped)):
            note(text)
        if not total and not known:
            raise InputError(f"{self.path} holds no replies; each line of it should be one")
        return total

    def survey(self) -> dict[str, Any]:
        """Return what the file holds: how it was understood, numbers, and the first few replies."""
        from rejoinder.corpora.lines import Reading
        from rejoinder.stores.writing import to_line

        reading = Reading()
        shown: list[Candidate] = []
        replies = 0
        questions = 0
        for candidate in self.read(reading=reading):
            to_line(candidate, replies)  # which refuses what no index can hold
            replies += 1
            questions += len(candidate.examples)
            if len(shown) < SHOWN:
                shown.append(candidate)
        if not replies:
            raise InputError(f"{self.path} holds no replies; each line of it should be one")
        return {
            "file": str(self.path),
            "notes": reading.notes,
            "replies": replies,
            "questions": questions,
            "dropped": reading.dropped,
            "shown": [asdict(candidate) for candidate in shown],
        }


def _left_out(dropped: Mapping[str, int]) -> list[str]:
    return [f"left out: {count:,} {reason}" for reason, count in dropped.items()]


def survey_text(result: Mapping[str, Any]) -> str:
    """Return a survey for people."""
    replies = counted(result["replies"], "reply", "replies")
    lines = [*result["notes"], f"{replies}, {counted(result['questions'], 'question')}"]
    lines += _left_out(result["dropped"])
    for reply in result["shown"]:
        lines += ["", *([f"# {reply['title']}"] if reply["title"] else [])]
        lines += [f"? {' / '.join(messages)}" for messages in reply["examples"][:SHOWN]]
        more = len(reply["examples"]) - SHOWN
        lines += [f"? and {more:,} more"] if more > 0 else []
        lines.append(f"> {reply['text']}")
        if reply["payload"]:
            lines.append(f"  {json.dumps(reply['payload'], ensure_ascii=False, default=str)[:300]}")
    return "\n".join(
        [*lines, "", "nothing was written; -o INDEX instead of --dry-run builds the index"]
    )
