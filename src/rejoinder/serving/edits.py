"""Changes of the index, and feedback: each kind of job on the items of several requests.

A request has a ticket, under which the log remembers what it has led to: one that comes again is
answered from there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from rejoinder.conversations import read_contexts
from rejoinder.corpora.registry.candidates import distinct
from rejoinder.corpora.schema import Candidate
from rejoinder.curation.changes import Change, changes, find_change
from rejoinder.curation.editing import Editor
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.learning import learn_chosen
from rejoinder.curation.outcomes import Outcome
from rejoinder.curation.shared_answers import RecentAnswer
from rejoinder.curation.tickets import ReusedKeyError, Ticket, recall, remember
from rejoinder.errors import BusyError, InputError, NotFoundError, RejoinderError
from rejoinder.retrieval.index import Index
from rejoinder.serving.worker.answers import Answers
from rejoinder.stores.log.database import LogError
from rejoinder.stores.store import Store

MAX_SEGMENTS = 50
SEGMENT_BYTES = 4 << 20
"""An index of more segments is compacted, if it has more than one for so many bytes: compacting
copies them all."""
Result: TypeAlias = dict[str, Any] | Exception
"""As the log remembers it: change, positions and added of a change; id and chosen of feedback."""


class Asked(NamedTuple):
    """The content of a request for a change, and its ticket."""

    item: Any
    ticket: Ticket


class Edit(NamedTuple):
    """A method of an `Editor`, and what it is called with."""

    method: Callable[..., Change]
    values: dict[str, Any]


def add(answers: Answers, requests: list[Asked]) -> list[Result]:
    """Add the candidates of several requests at once.

    `is_fragmented` of a result says whether to compact the index.
    """

    def change(index: Index) -> list[Result]:
        results = _once(index, answers.log, requests, lambda new: _added(index, answers.log, new))
        is_fragmented = _is_fragmented(index)
        return [_with_flag(result, "is_fragmented", is_fragmented) for result in results]

    return answers.change(change)


def add_new(answers: Answers, requests: list[Asked]) -> list[Result]:
    """Add those of the candidates, file by file, whose texts the index does not have."""

    def add_file(index: Index, new: Sequence[Asked]) -> list[Result]:
        [asked] = new
        known = [candidate.text for _, candidate in index]
        unknown: list[Candidate] = list(distinct(asked.item, known))
        if unknown:
            return _added(index, answers.log, [asked._replace(item=unknown)])
        return [_remembered(answers.log, asked.ticket)]

    results = _one_by_one(answers, requests, add_file)
    is_fragmented = _is_fragmented(answers.opened())
    return [_with_flag(result, "is_fragmented", is_fragmented) for result in results]


def add_examples(answers: Answers, requests: list[Asked]) -> list[Result]:
    """Add the examples of several requests, each those of a candidate."""

    def add_some(index: Index, new: Sequence[Asked]) -> list[Result]:
        [asked] = new
        position, examples = asked.item
        index.candidate(position)
        editor = Editor(index, answers.log, [asked.ticket])
        made = editor.add_examples({position: read_contexts(examples)})
        return [_result(change) for change in made] or [_remembered(answers.log, asked.ticket)]

    return _one_by_one(answers, requests, add_some)


def delete(answers: Answers, requests: list[Asked]) -> list[Result]:
    """Delete the candidates of several requests at once."""

    def retire(index: Index, new: Sequence[Asked]) -> list[Result]:
        first: dict[int, Ticket] = {}
        for asked in new:
            first.setdefault(asked.item, asked.ticket)
        made = Editor(index, answers.log, list(first.values())).retire(list(first))
        results = dict(zip(first.values(), map(_result, made), strict=True))
        gone = NotFoundError("the reply was deleted before")
        return [results.get(asked.ticket, gone) for asked in new]

    return answers.change(
        lambda index: _once(index, answers.log, requests, lambda new: retire(index, new)),
    )


def edit(answers: Answers, requests: list[Asked]) -> list[Change | Exception]:
    """Make edits one after the other; return the change of each, or why there is none."""

    def edit_one(index: Index, new: Sequence[Asked]) -> list[Result]:
        [asked] = new
        method, values = asked.item
        change = method(Editor(index, answers.log, [asked.ticket]), **values)
        return [_result(change) if change.id else _remembered(answers.log, asked.ticket)]

    results = _one_by_one(answers, requests, edit_one)
    store = answers.index.store
    return [
        result if isinstance(result, Exception) else change_of(store, result) for result in results
    ]


def latest(answers: Answers, limits: list[int]) -> list[list[Change]]:
    """Return the latest changes, newest first."""
    token = answers.index.store.read_manifest().change
    return [changes(answers.log.database, limit, token=token) for limit in limits]


def feedback(answers: Answers, requests: list[Asked]) -> list[Result]:
    """Write the outcomes of several requests to the logs of their indexes, the first or the second.

    `at_once` of a result says whether the first index is to learn from it at once.
    """
    results: list[Any] = [None] * len(requests)
    for name, own in (("first", answers), ("second", answers.second)):
        rows = [row for row, asked in enumerate(requests) if asked.item[0] == name]
        if rows:
            assert own is not None
            recorded = _recorded(own, [requests[row] for row in rows])
            at_once = name == "first" and own.log.latest_settings.learn == "at-once"
            for row, result in zip(rows, recorded, strict=True):
                is_choice = isinstance(result, dict) and result["chosen"] is not None
                results[row] = _with_flag(result, "at_once", at_once and is_choice)
    return results


def share(answers: Answers, requests: list[dict[str, RecentAnswer]]) -> list[None]:
    """Let servers on other machines find answers by their ids."""
    answers.shared.add(dict(itertools.chain.from_iterable(request.items() for request in requests)))
    return [None] * len(requests)


def find_shared(answers: Answers, names: list[str]) -> list[RecentAnswer | None]:
    """Return answers of servers on other machines by their ids."""
    return [answers.shared.find(name) for name in names]


def learn(answers: Answers, requests: list[None]) -> list[None]:
    """Make choices of the log examples of the replies that were taken."""
    answers.change(lambda index: learn_chosen(index, answers.log))
    return requests


def tidy(answers: Answers, requests: list[None]) -> list[None]:
    """Delete from the logs what is too old."""
    for own in (answers, answers.second):
        if own is not None:
            own.log.tidy()
            if own.log.database.is_shared:
                own.shared.tidy()
    return requests


def compact(answers: Answers, requests: list[None]) -> list[None]:
    """Compact the index, unless another process has done so."""
    answers.change(lambda index: index.compact() if _is_fragmented(index) else 0)
    return requests


def find_result(store: Store, ticket: Ticket) -> dict[str, Any] | None:
    """Return what a request has led to; None: nothing.

    Whoever was carrying it out must have ended.
    """
    log = FeedbackLog(store)
    result = recall(log.database, ticket, store.read_manifest().change)
    return result or log.find_entry(ticket)


def change_of(store: Store, result: dict[str, Any]) -> Change:
    """Return the change of a result; one that was deleted from the log has no replies."""
    database = store.log()
    number = result["change"]
    change = find_change(database, number, token=store.read_manifest().change)
    database.close()
    return change or Change(number, 0.0, "edit", {}, {}, undone=False)


def _added(index: Index, log: FeedbackLog, new: Sequence[Asked]) -> list[Result]:
    editor = Editor(index, log, [asked.ticket for asked in new])
    return [_result(change) for change in editor.add([asked.item for asked in new])]


def _result(change: Change) -> dict[str, Any]:
    """Return what the log remembers of a change's request; see `changes.Journal`."""
    return {"change": change.id, "positions": list(change.after), "added": change.new_examples}


def _with_flag(result: Result, name: str, flag: bool) -> Result:
    """Return a result with a flag that the log does not remember."""
    return result if isinstance(result, Exception) else {**result, name: flag}


def _remembered(log: FeedbackLog, ticket: Ticket) -> dict[str, Any]:
    """Remember that a request has changed nothing."""
    result: dict[str, Any] = {"change": 0, "positions": [], "added": 0}
    with log.database.writing() as connection:
        remember(connection, ticket, result)
    return result


def _recorded(answers: Answers, requests: Sequence[Asked]) -> list[Result]:
    """Write outcomes to the log of an index; return of each its result, or why it is not there."""

    def record(new: Sequence[Asked]) -> list[Result]:
        outcomes: list[Outcome] = [asked.item[1] for asked in new]
        recorded = answers.record(outcomes, [asked.ticket for asked in new])
        return [{"id": entry.id, "chosen": entry.chosen} for entry in recorded]

    try:
        if any(asked.ticket.digest for asked in requests):
            return _once(answers.index, answers.log, requests, record)
        return record(requests)
    except (InputError, OSError) as error:
        if isinstance(error, (BusyError, LogError, OSError)) or len(requests) == 1:
            return [error.with_traceback(None)] * len(requests)
    # one of them is wrong
    return [result for asked in requests for result in _recorded(answers, [asked])]


def _one_by_one(
    answers: Answers,
    requests: Sequence[Asked],
    work: Callable[[Index, Sequence[Asked]], list[Result]],
) -> list[Result]:
    """Carry out requests, each as a change of its own: one that fails leaves the others."""
    results: list[Result] = []
    for asked in requests:
        try:
            results += answers.change(
                lambda index, asked=asked: _once(  # type: ignore[misc]  # the default binds it
                    index, answers.log, [asked], lambda new: work(index, new)
                )
            )
        except (RejoinderError, OSError) as error:
            results.append(error)
    return results


def _once(
    index: Index,
    log: FeedbackLog,
    requests: Sequence[Asked],
    work: Callable[[Sequence[Asked]], list[Result]],
) -> list[Result]:
    """Carry out the requests that were not carried out before; return the results of all."""
    results: dict[Ticket, Result] = {}
    new: dict[str, Asked] = {}
    for asked in requests:
        ticket = asked.ticket
        first = new.setdefault(ticket.key, asked)
        try:
            if first.ticket != ticket:
                raise ReusedKeyError("this Idempotency-Key came with another request just now")
            if (result := recall(log.database, ticket, index.manifest.change)) is not None:
                results[ticket] = result
        except ReusedKeyError as error:
            results[ticket] = error
    left = [asked for asked in new.values() if asked.ticket not in results]
    if left:
        tickets = [asked.ticket for asked in left]
        results |= dict(zip(tickets, work(left), strict=True))
    return [results[asked.ticket] for asked in requests]


def _is_fragmented(index: Index) -> bool:
    """Return whether compacting pays off; what an approximate search needs would be lost."""
    manifest = index.manifest
    size = sum(size for record in manifest.segments for size, _ in record.files.values())
    most = max(MAX_SEGMENTS, size // SEGMENT_BYTES)
    return manifest.approximate is None and len(manifest.segments) > most
