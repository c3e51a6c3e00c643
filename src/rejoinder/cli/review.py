"""The report of `rejoinder index evaluate --report`: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rejoinder.files import Kind, atomic_folder
from rejoinder.intents.report import table

if TYPE_CHECKING:
    from rejoinder.corpora.example import Candidate
    from rejoinder.retrieval.index import Index
    from rejoinder.retrieval.review import Review

REPORT = "report.md"
FIGURES = "report.json"
KIND = "rejoinder report on an index"
FOLDER = Kind(
    "a report on an index", FIGURES, lambda figures: figures["kind"] == KIND, (REPORT, FIGURES)
)
WIDTH = 80  # letters of a reply that are shown


def save_review(index: Index, review: Review, folder: Path) -> None:
    """Write a report, whole or not at all, in place of an earlier one."""
    replies = dict(index)
    with atomic_folder(folder, FOLDER, overwrite=True) as part:
        (part / REPORT).write_text(markdown(replies, review), encoding="utf-8")
        figures = {"kind": KIND, "index": str(index.folder), **asdict(review)}
        text = json.dumps(figures, indent=1, ensure_ascii=False)
        (part / FIGURES).write_text(text + "\n", encoding="utf-8")


def markdown(replies: dict[int, Candidate], review: Review) -> str:
    """Return a report as Markdown."""
    parts = [
        "# Replies\n",
        f"{review.right:,} of {review.asked:,} messages found their reply first "
        f"({review.right / review.asked:.1%}); {review.refused:,} found none.\n",
    ]
    if review.answered is not None:
        parts.append(
            f"Nine of ten answers are right from a score of {review.from_score:.2f} on, "
            f"which answers {review.answered:.1%}.\n"
        )

    def name(position: int) -> str:
        reply = replies[position]
        return f"#{position} {(reply.title or ' '.join(reply.text.split()))[:WIDTH]}"

    pairs = [(name(right), name(found), count) for right, found, count in review.pairs]
    parts += _section("The worst pairs", ("reply", "taken for", "messages"), pairs)
    needs = [(name(n.position), f"{n.right} of {n.asked}", n.examples) for n in review.needs]
    parts += _section("Replies that need examples", ("reply", "found", "examples"), needs)
    head = ("message", "reply", "taken for", "score")
    for title, mistakes in (
        ("The surest mistakes", review.mistakes),
        ("Examples that may belong elsewhere", review.elsewhere),
    ):
        rows = [
            (m.message[:WIDTH], name(m.right), name(m.found), f"{m.score:.2f}") for m in mistakes
        ]
        parts += _section(title, head, rows)
    return "\n".join(parts)


def _section(title: str, head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    return [f"## {title}\n", table(head, rows)] if rows else []
