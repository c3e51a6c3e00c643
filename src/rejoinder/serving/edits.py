"""Changes of the index, and feedback: each kind of job on the items of several requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from rejoinder.conversations import read_contexts
from rejoinder.corpora import Candidate
from rejoinder.corpora.recognition import distinct
from rejoinder.errors import BusyError, InputError
from rejoinder.retrieval.editing import Editor
from rejoinder.retrieval.feedback import Change, changes
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.learning import Outcome, Recorded
from rejoinder.serving.answers import Answers

MAX_SEGMENTS = 50
SEGMENT_BYTES = 4 << 20
"""An index of more segments is compacted, if it has more than one for so many bytes: compacting
copies them all."""


class Edit(NamedTuple):
    """A method of an `Editor`, and what it is called with."""

    method: Callable[..., Change]
    values: dict[str, Any]


def add(answers: Answers, lists: list[list[Candidate]]) -> list[tuple[list[int], bool]]:
    """Add the candidates of several requests at once.

    Return of each the positions, and whether to compact the index.
    """

    def change(index: Index) -> list[tuple[list[int], bool]]:
        made = Editor(index).add(lists)
        is_fragmented = _is_fragmented(index)
        return [(list(each.after), is_fragmented) for each in made]

    return answers.change(change)


def add_new(answers: Answers, lists: list[list[Candidate]]) -> list[tuple[list[int], bool]]:
    """Add those of the candidates, file by file, whose texts the index does not have."""
    results: list[tuple[list[int], bool]] = []
    for own in lists:
        known = [candidate.text for _, candidate in answers.opened()]
        new = list(distinct(own, known))
        results += add(answers, [new]) if new else [([], False)]
    return results


def add_examples(answers: Answers, lists: list[tuple[int, list[Any]]]) -> list[int]:
    """Add the examples of several requests, each those of a candidate; return how many are new."""

    def change(index: Index) -> list[int]:
        counts = []
        for position, examples in lists:
            before = _example_count(index.reply(position))
            Editor(index).add_examples({position: map(tuple, read_contexts(examples))})
            counts.append(_example_count(index.reply(position)) - before)
        return counts

    return answers.change(change)


def delete(answers: Answers, positions: list[int]) -> list[int]:
    """Delete the candidates of several requests at once; return how many each has deleted."""
    answers.change(lambda index: Editor(index).retire(positions))
    return [1] * len(positions)


def edit(answers: Answers, edits: list[Edit]) -> list[Change | InputError]:
    """Make edits one after the other; return the change of each, or why there is none."""
    results: list[Change | InputError] = []
    for edit in edits:
        try:
            results.append(answers.change(partial(_apply, edit)))
        except BusyError:
            raise
        except InputError as error:
            results.append(error)
    return results


def _apply(edit: Edit, index: Index) -> Change:
    return edit.method(Editor(index), **edit.values)


def latest(answers: Answers, limits: list[int]) -> list[list[Change]]:
    """Return the latest changes, newest first."""
    return [changes(answers.index.log, limit) for limit in limits]


def feedback(answers: Answers, outcomes: list[tuple[str, Outcome]]) -> list[tuple[Recorded, bool]]:
    """Write the outcomes of several requests to the logs of their indexes, the first or the second.

    Return whether the first index is to learn from each at once.
    """
    results: list[Any] = [None] * len(outcomes)
    for name, own in (("first", answers), ("second", answers.second)):
        rows = [row for row, (index, _) in enumerate(outcomes) if index == name]
        if rows:
            assert own is not None
            recorded = own.record([outcomes[row][1] for row in rows])
            at_once = name == "first" and own.index.log.latest_settings.learn == "at-once"
            for row, result in zip(rows, recorded, strict=True):
                results[row] = result, at_once and result.chosen is not None
    return results


def learn(answers: Answers, requests: list[None]) -> list[None]:
    """Make choices of the log examples of the replies that were taken."""
    answers.change(lambda index: index.learn_chosen())
    return requests


def compact(answers: Answers, requests: list[None]) -> list[None]:
    """Compact the index, unless another process has done so."""
    answers.change(lambda index: index.compact() if _is_fragmented(index) else 0)
    return requests


def _is_fragmented(index: Index) -> bool:
    """Return whether compacting pays off; what an approximate search needs would be lost."""
    manifest = index.manifest
    size = sum(size for record in manifest.segments for size, _ in record.files.values())
    most = max(MAX_SEGMENTS, size // SEGMENT_BYTES)
    return manifest.approximate is None and len(manifest.segments) > most


def _example_count(candidate: Candidate) -> int:
    return len(candidate.examples) + len(candidate.learned)
