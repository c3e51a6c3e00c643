"""Answers to batches of requests: the index and the models beside it, and the jobs that search."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rejoinder.conversations import read_contexts
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.outcomes import Outcome, Recorded, Recorder
from rejoinder.curation.shared_answers import SharedAnswers
from rejoinder.curation.tickets import Ticket
from rejoinder.encoders.protocol import DualEncoder, Ranker, encode_queries
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import BusyError, InputError, RejoinderError
from rejoinder.retrieval.calibration import CalibratedIndex
from rejoinder.retrieval.cascade import Cascade, answered
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import SearchOptions
from rejoinder.retrieval.queries import forbidden_keys, keep_subjects
from rejoinder.retrieval.replies import Reply
from rejoinder.retrieval.turns import Reading, read_parts
from rejoinder.serving.http.logs import logger
from rejoinder.serving.worker.condition import Condition, ConditionWatch
from rejoinder.serving.worker.jobs import UnavailableError
from rejoinder.serving.worker.loading import Follower
from rejoinder.serving.worker.reports import Reports, UsageReport
from rejoinder.serving.worker.sources import Sources
from rejoinder.serving.worker.stamps import Stamps
from rejoinder.stores.log.database import LogError
from rejoinder.stores.names import CALIBRATION
from rejoinder.stores.store import DeniedError, StaleError

if TYPE_CHECKING:
    from rejoinder.intents.classifier import IntentClassifier
    from rejoinder.intents.onnx import OnnxIntents

T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """A conversation, and how replies to it are chosen.

    Raises:
        InputError: the conversation has no message.
    """

    messages: Sequence[Any]
    options: SearchOptions = field(default_factory=SearchOptions)

    def __post_init__(self) -> None:
        read_contexts([self.messages])  # here, so that no batch fails by one conversation

    @property
    def search_key(self) -> str:
        """The options as JSON: equal keys share a search."""
        return json.dumps(vars(self.options), sort_keys=True)


class _Query(NamedTuple):
    row: int  # among the questions
    question: Question
    options: SearchOptions
    reading: Reading  # the messages that the model reads
    forbidden: frozenset[str]


@dataclass
class Answers:
    """An open index and the models beside it.

    A kind of job is a method, or a function of `text_jobs` or `edits`, that takes the items of
    several requests and returns the result of each; jobs that need only the encoder, ranker or
    classifier are functions. One thread searches, and calls `refresh`
    before; others may change the index, tell what there is and report on its use meanwhile.
    """

    sources: Sources
    index: Index
    encoder: DualEncoder
    ranker: Ranker | None = None
    classifier: IntentClassifier | OnnxIntents | None = None
    second: Answers | None = None  # of the index beside this one
    log: FeedbackLog = field(init=False)
    shared: SharedAnswers = field(init=False)
    _recorder: Recorder = field(init=False)
    # of the index as no search has seen it yet, and its stamp
    _ahead: tuple[object, Recorder] | None = field(default=None, init=False)
    _calibrated: CalibratedIndex | None = field(default=None, init=False)
    _is_outdated: bool = field(default=False, init=False)  # whether that is of earlier replies
    _stamps: Stamps = field(init=False)
    _follower: Follower = field(init=False)
    _condition: ConditionWatch = field(init=False)
    _reports: Reports = field(default_factory=Reports, init=False)

    def __post_init__(self) -> None:
        self.log = FeedbackLog(self.index.store)
        self.shared = SharedAnswers(self.log)
        self._recorder = Recorder(self.index, self.log)
        self._stamps = Stamps(self.index.store)
        self._follower = Follower(self.index, self._stamps.latest())
        self._condition = ConditionWatch(self.index, self.log, self._stamps)

    def close(self) -> None:
        """Look at the indexes no more; what runs is finished."""
        self._stamps.close()
        if self.second is not None:
            self.second.close()

    @property
    def model(self) -> str:
        """The name of the index's model without its folders.

        Of RUN/model, as training writes it, RUN.
        """
        path = Path(self.encoder.name)
        if path.name == "model":
            path = Path(os.path.abspath(path)).parent  # noqa: PTH100 (links keep their names)
        return path.name or self.encoder.fingerprint[:12]

    def refresh(self) -> None:
        """Load what this server, another worker or the command has changed."""
        if self.second is not None:
            self.second.refresh()
        if self._has_changed() and self._follower.load(self._stamps.latest()):
            self._calibrated = None
            self._ahead = None

    def _has_changed(self) -> bool:
        """Return whether no search has seen the index as it is in a store that can be asked."""
        return self._stamps.latest() != self._follower.stamp and not self._stamps.is_hanging

    def check_store(self) -> None:
        """Raise UnreachableError while the store of the index hangs."""
        self._stamps.check()

    def replies(self, questions: list[Question]) -> list[dict[str, Any] | RejoinderError]:
        """Encode all conversations together, and search once for questions with equal options."""
        results: list[Any] = [None] * len(questions)
        queries: list[_Query] = []
        for row, question in enumerate(questions):
            try:
                options = self._options(question)
                messages = question.messages
                reading = read_parts(messages, options.history, self.index.spelling())
                forbidden = forbidden_keys(messages) if options.no_repeat else frozenset[str]()
                queries.append(_Query(row, question, options, reading, forbidden))
            except InputError as error:
                results[row] = error
        if not queries:
            return results
        encoder = self.encoder.with_cache()
        whole = [number for number, query in enumerate(queries) if query.options.history is None]
        readings = keep_subjects(encoder, [queries[number].reading for number in whole])
        for number, reading in zip(whole, readings, strict=True):
            queries[number] = queries[number]._replace(reading=reading)
        contexts = [query.reading.contexts for query in queries]
        vectors = encode_queries(encoder, [context for own in contexts for context in own])
        ends = itertools.accumulate(map(len, contexts), initial=0)
        rows_of = [range(start, end) for start, end in itertools.pairwise(ends)]
        numbers_by_key: dict[str, list[int]] = {}
        for number, query in enumerate(queries):
            numbers_by_key.setdefault(query.question.search_key, []).append(number)
        for numbers in numbers_by_key.values():
            rows = [row for number in numbers for row in rows_of[number]]
            chosen = vectors.take(rows) if isinstance(vectors, ContextVectors) else vectors[rows]
            answers: Sequence[Any]
            try:
                own = [queries[number] for number in numbers]
                answers = self._search_again_if_stale(own, chosen)
            except (InputError, UnavailableError) as error:
                answers = [error] * len(numbers)
            for number, answer in zip(numbers, answers, strict=True):
                if isinstance(answer, dict):
                    self._explain(answer, queries[number])
                results[queries[number].row] = answer
        return results

    def _search_again_if_stale(self, queries: Sequence[_Query], vectors: Any) -> list[Any]:
        """Search; once more if another server has changed the index just now.

        Raises:
            UnavailableError: the index as it was opened has gone from its database, and the present
                one cannot be opened; or this role may no longer read it.
        """
        with contextlib.suppress(StaleError, DeniedError):
            return self._search(queries, vectors)
        self._stamps.look()
        self.refresh()
        try:
            return self._search(queries, vectors)
        except (StaleError, DeniedError) as error:
            raise UnavailableError(
                f"this server cannot search the index as it is now, so reload it: {error}"
            ) from None

    def _explain(self, answer: dict[str, Any], query: _Query) -> None:
        """Add how the message was read, and why there is no reply, where a program can tell."""
        notes = query.reading.message.notes()
        if self._is_outdated and query.options.minimum_confidence is not None:
            notes["calibration"] = "earlier"
        if notes:
            answer["notes"] = notes
        if not answer["replies"]:
            reason = self.index.silence(query.question.messages, query.options)
            answer |= {} if reason is None else {"reason": reason}

    def compare(self, questions: list[Question]) -> list[dict[str, Any] | RejoinderError]:
        """Find the best replies of the second index."""
        if self.second is None:
            raise InputError("this server has no second index; start it with --beside INDEX")
        return self.second.replies(questions)

    def candidates(self, pages: list[tuple[int, int]]) -> list[tuple[list[dict[str, Any]], int]]:
        """Return candidates from a position on, at most so many, and how many the index has."""
        results = []
        for first, limit in pages:
            page = [
                {
                    "position": position,
                    "text": candidate.text,
                    "payload": dict(candidate.payload),
                    "title": candidate.title,
                    "examples": candidate.examples,
                    "learned": candidate.learned,
                }
                for position, candidate in itertools.islice(self.index.candidates(first), limit)
            ]
            results.append((page, len(self.index)))
        return results

    def record(self, outcomes: list[Outcome], tickets: Sequence[Ticket]) -> list[Recorded]:
        """Write outcomes to the log of the index, for the requests of some tickets."""
        try:
            return self._latest_recorder().record(outcomes, tickets)
        except (BusyError, LogError):
            raise
        except InputError:  # of a reply, perhaps, that another worker has added just now
            self._stamps.look()
            if self._stamps.latest() == self._follower.stamp:
                raise
            return Recorder(self.opened(), self.log).record(outcomes, tickets)

    def _latest_recorder(self) -> Recorder:
        """Return what records the choice of a reply of the index as it is in its store.

        It is opened once for each change that no search has seen yet.
        """
        stamp = self._stamps.latest()
        if stamp == self._follower.stamp:
            return self._recorder
        ahead = self._ahead
        if ahead is None or ahead[0] != stamp:
            ahead = (stamp, Recorder(self._latest(), self.log))
            self._ahead = ahead
        return ahead[1]

    def facts(self, requests: list[None]) -> list[dict[str, Any]]:
        """Return what the server has."""
        second = None if self.second is None else self.second._index_facts(self.second._latest())
        facts = {
            "first": self._index_facts(self._latest()),
            "second": second,
            "intents": self.classifier is not None,
        }
        return [facts] * len(requests)

    def condition(self, requests: list[None]) -> list[Condition]:
        """Return whether the indexes can be opened from where they are kept, by any model."""
        condition = self._condition.current()
        if self.second is not None and condition.trouble is None:
            [second] = self.second.condition([None])
            condition = second._replace(searches=second.searches and condition.searches)
        return [condition] * len(requests)

    def report(self, requests: list[None]) -> list[UsageReport]:
        """Return the report on the use of the index."""
        return [self._reports.report(self._latest().snapshot(), self.log)] * len(requests)

    def _options(self, question: Question) -> SearchOptions:
        """Return the options of a question's search.

        Refuse those that this server or its calibration lacks.
        """
        options = question.options
        if options.rerank and self.ranker is None:
            raise InputError("this server has no second model; start it with --ranker MODEL")
        if options.minimum_confidence is None:
            return options
        return self.calibrated().with_history(options)

    def calibrated(self) -> CalibratedIndex:
        """Return the index with its calibration; say once that it is of earlier replies."""
        if self._calibrated is None:
            self._calibrated = CalibratedIndex(self.index, after_changes=True)
            outdated = self._calibrated.outdated
            if outdated is not None and not self._is_outdated:
                logger.warning(
                    "confidence is that of earlier replies", extra={"fields": {"reason": outdated}}
                )
            self._is_outdated = outdated is not None
        return self._calibrated

    def _search(self, queries: Sequence[_Query], vectors: Any) -> list[dict[str, Any]]:
        """Search once for questions with equal options, whose conversations are encoded."""
        options = queries[0].options
        results = self.index.search_vectors(
            vectors,
            options.first_search,
            inputs=[part for query in queries for part in query.reading.message.parts],
            forbidden=[query.forbidden for query in queries],
            counts=[len(query.reading.message.parts) for query in queries],
            foreign=[query.reading.message.is_foreign for query in queries],
        )
        if options.minimum_confidence is not None:
            answers = self.calibrated().apply_threshold(results, options)
            return [_to_json(answer.replies, answer.confidence) for answer in answers]
        if options.rerank:
            assert self.ranker is not None
            cascade = Cascade(self.index, self.ranker, options.rerank)
            contexts = answered([query.reading for query in queries], results)
            results = cascade.rank(contexts, results, options)
        return [_to_json(replies) for replies in results]

    def _latest(self) -> Index:
        """Return the index as it is in its store, or as the last search found it.

        The latter where nothing has changed, or what has changed cannot be opened.
        """
        if self._has_changed():
            with contextlib.suppress(UnavailableError):
                return self.opened()
        return self.index

    def _index_facts(self, index: Index) -> dict[str, Any]:
        """Return what the page shows of the index."""
        head = index.manifest.head
        return {
            "index": index.store.name,
            "model": self.model,
            "size": index.manifest.size,
            "candidates": len(index),
            "calibrated": index.store.has_file(CALIBRATION),
            "minimum_score": None if head is None else head.minimum_score,
        }

    def change(self, change: Callable[[Index], T]) -> T:
        """Change the index in its store; wait while another process is changing it."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._stamps.look)
            # one that may not be written says so itself
            with _told_as_unavailable(InputError, FileNotFoundError):
                stack.enter_context(self.index.store.lock())
            return change(self.opened())

    def opened(self) -> Index:
        """Open the index as it is on the disk."""
        with _told_as_unavailable(InputError, OSError):
            return Index.open(self.index.store, self.encoder, verify=False, like=self.index)


@contextlib.contextmanager
def _told_as_unavailable(*errors: type[Exception]) -> Iterator[None]:
    """Raise what keeps an index from being opened as an UnavailableError."""
    try:
        yield
    except BusyError:
        raise
    except errors as error:
        raise UnavailableError(
            f"the index cannot be opened, so nothing was changed: {error}"
        ) from None


def _to_json(replies: Sequence[Reply], confidence: float | None = None) -> dict[str, Any]:
    return {"replies": [reply.to_json() for reply in replies], "confidence": confidence}
