"""The report of a review: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rejoinder.corpora.schema import Candidate
from rejoinder.curation.report_cells import WIDTH, reply_name
from rejoinder.curation.review import Mistake, Review
from rejoinder.documents import Block, Document, Table, Text
from rejoinder.files import atomic_folder
from rejoinder.folder_kinds import Kind
from rejoinder.retrieval.index import Index

REPORT = "report.md"
FIGURES = "report.json"
KIND = "rejoinder report on an index"
FOLDER = Kind(
    "a report on an index", FIGURES, lambda figures: figures["kind"] == KIND, (REPORT, FIGURES)
)


def save_review(index: Index, review: Review, folder: Path) -> None:
    """Write a report, whole or not at all, in place of an earlier one."""
    replies = dict(index)
    with atomic_folder(folder, FOLDER, overwrite=True) as part:
        (part / REPORT).write_text(document(replies, review).markdown(), encoding="utf-8")
        figures = {"kind": KIND, "index": str(index.store), **asdict(review)}
        text = json.dumps(figures, indent=1, ensure_ascii=False)
        (part / FIGURES).write_text(text + "\n", encoding="utf-8")


def document(replies: Mapping[int, Candidate], review: Review) -> Document:
    """Return the report as Markdown."""
    blocks: list[Block] = [
        Text(
            f"{review.right:,} of {review.asked:,} messages found their reply first "
            f"({review.right / review.asked:.1%}); {review.refused:,} found none."
        )
    ]
    if review.answered is not None:
        blocks.append(
            Text(
                f"Nine of ten answers are right from a score of {review.from_score:.2f} on, "
                f"which answers {review.answered:.1%}."
            )
        )
    name = partial(reply_name, replies)
    pairs = [(name(right), name(wrong), count) for right, wrong, count in review.pairs]
    needs = [(name(n.position), f"{n.right} of {n.asked}", n.examples) for n in review.needs]
    blocks += [
        Table("The most confused pairs", ("reply", "taken for", "messages"), pairs),
        Table("Replies that need examples", ("reply", "found", "examples"), needs),
        _mistakes("The most confident mistakes", review.mistakes, name),
        _mistakes("Examples that may belong elsewhere", review.elsewhere, name),
    ]
    return Document("Replies", blocks)


def _mistakes(title: str, mistakes: Sequence[Mistake], name: Callable[[int], str]) -> Table:
    rows = [
        (mistake.message[:WIDTH], name(mistake.right), name(mistake.found), f"{mistake.score:.2f}")
        for mistake in mistakes
    ]
    return Table(title, ("message", "reply", "taken for", "score"), rows)
