"""What the server computes: the index, the models beside it, and each kind of job on many requests at once."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.encoders.conversation import TruncationCounter
from rejoinder.encoders.onnx import MANIFEST as ONNX
from rejoinder.encoders.open import open_encoder
from rejoinder.encoders.protocol import ContextVectors, DualEncoder, Ranker, encode_queries
from rejoinder.errors import BusyError, InputError
from rejoinder.retrieval.cascade import Cascade, score_lists
from rejoinder.retrieval.choice import Reply, newest, on_subject, remembering, said_before
from rejoinder.retrieval.confidence import Confident
from rejoinder.retrieval.index import CALIBRATION, Index
from rejoinder.retrieval.manifest import MANIFEST, read_manifest
from rejoinder.retrieval.opening import read
from rejoinder.retrieval.reading import Candidate
from rejoinder.retrieval.search import all_scores
from rejoinder.serving.guard import logger, places
from rejoinder.serving.worker import Job, UnavailableError
from rejoinder.text.tokenizer import encode_messages

if TYPE_CHECKING:
    from rejoinder.intents.classifier import IntentClassifier
    from rejoinder.intents.onnx import OnnxIntents

PATIENCE, PAUSE = 10.0, 0.02  # seconds for which a change waits for another process that is changing the index
AGAIN = 1.0  # seconds until an index that cannot be opened is tried again, or one that can is checked again
SEGMENTS, SEGMENT_BYTES = 50, 4 << 20
"""An index of more segments is compacted, if it has more than one for so many bytes: compacting copies them all."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where a server has its answers from."""

    index: Path
    model: str | None = None  # where the index's model is now; None: where it was
    intents: Path | None = None
    reranker: Callable[[], Ranker] | None = None  # opens what may rank the best replies again
    rerank_top: int = 50
    calibrated: bool = False  # refuse an index that is not
    beside: Sources | None = None  # a second index, to compare with

    def open(self) -> Answers:
        """Open all of it, and compute once: what is slow the first time is over then."""
        encoder = open_encoder(self.model or read_manifest(self.index).model.locate(self.index), light=True)
        classifier = None if self.intents is None else _open_classifier(self.intents)
        ranker = None if self.reranker is None else self.reranker()
        answers = Answers(self, Index.open(self.index, encoder), encoder, ranker, classifier)
        answers.index.search([["Hello!", "How are you?"]], 1)
        if self.calibrated:
            Confident(answers.index)
        encoder.encode_responses(["Hello!"])
        answers.second = None if self.beside is None else self.beside.open()
        return answers


@dataclass(frozen=True, kw_only=True)
class Question:
    """A conversation and how replies to it are chosen; see `Index.search` and `Confident.answer`."""

    messages: Sequence[Any]
    k: int = 5
    minimum_score: float | None = None
    minimum_confidence: float | None = None
    history: int | None = None
    no_repeat: bool = False
    distinct: bool = True
    where: dict[str, Any] | None = None
    diversity: float = 0.0
    hybrid: float = 0.0
    rerank: bool = False

    @property
    def search(self) -> str:
        """Of questions whose texts are equal the search is one."""
        chosen = self.k, self.minimum_score, self.distinct, self.where, self.diversity, self.hybrid, self.rerank
        return json.dumps([*chosen, self.minimum_confidence], sort_keys=True)


class _Asked(NamedTuple):
    place: int  # among the questions
    question: Question
    read: Sequence[str]  # what the model reads of the conversation
    said: frozenset[str]


@dataclass
class Answers:
    """An open index and the models beside it. One thread calls `compute`, another one `write`."""

    sources: Sources
    index: Index
    encoder: DualEncoder
    ranker: Ranker | None = None
    classifier: IntentClassifier | OnnxIntents | None = None
    second: Answers | None = None  # of the index beside this one
    _confident: Confident | None = field(default=None, init=False)
    _seen: object = field(default=None, init=False)  # of the index's files, when it was opened
    _again: float = field(default=0.0, init=False)  # when what could not be opened is tried again
    _trouble: str | None = field(default=None, init=False)
    _checked: float = field(default=-AGAIN, init=False)  # when `_trouble` was found out

    def __post_init__(self) -> None:
        self._seen = self._stamp()

    @property
    def model(self) -> str:
        """The name of the index's model without its folders; of RUN/model, as training writes it, RUN."""
        path = Path(self.encoder.name)
        if path.name == "model":
            path = path.absolute().parent
        return path.name or self.encoder.fingerprint[:12]

    def facts(self) -> dict[str, Any]:
        """Return what there is."""
        second = None if self.second is None else self.second._shown()
        return {"first": self._shown(), "second": second, "intents": self.classifier is not None}

    def trouble(self) -> str | None:
        """Return why an index cannot be opened from the disk; None if it can, with whichever model."""
        if time.monotonic() > self._checked + AGAIN:
            try:
                read(self.sources.index, None, verify=False)
                self._trouble = None
            except (InputError, OSError) as error:
                self._trouble = str(error)
            self._checked = time.monotonic()
        return self._trouble or (None if self.second is None else self.second.trouble())

    def compute(self, jobs: Sequence[Job]) -> list[Any]:
        """Return of each job its result or its exception; those of one kind are computed together."""
        self._refresh()
        if self.second is not None:
            self.second._refresh()
        return self._each(jobs)

    def write(self, jobs: Sequence[Job]) -> list[Any]:
        """Return of each change its result or its exception; additions that wait together become one."""
        return self._each(jobs)

    def _each(self, jobs: Sequence[Job]) -> list[Any]:
        results: list[Any] = [None] * len(jobs)
        for kind in dict.fromkeys(job.kind for job in jobs):
            places = [place for place, job in enumerate(jobs) if job.kind == kind]
            found = self._together(getattr(self, kind), [jobs[place].item for place in places])
            for place, result in zip(places, found, strict=True):
                results[place] = result
        for error in results:
            if isinstance(error, Exception):  # by its traceback it would hold on to files until garbage is collected
                error.__cause__ = error.__context__ = error.__traceback__ = None
        return results

    def _together(self, work: Callable[[list[Any]], Sequence[Any]], items: list[Any]) -> Sequence[Any]:
        """Do the work for all items at once; if that fails, one by one, so that only the culprit fails."""
        try:
            return work(items)
        except Exception as error:  # noqa: BLE001 (whoever asked for it raises it)
            if len(items) > 1 and not isinstance(error, BusyError | UnavailableError | OSError):
                return [each for item in items for each in self._together(work, [item])]
            error.__notes__ = places(error)  # another process would not see where it was
            return [error] * len(items)

    # --- Kinds of jobs: each takes the items of several ---------------------------------------------------------------

    def replies(self, questions: list[Question]) -> list[dict[str, Any] | InputError]:
        """Encode all conversations together, and search once for all that want the same of the search."""
        results: list[Any] = [None] * len(questions)
        asked: list[_Asked] = []
        for place, question in enumerate(questions):
            try:
                read = newest([question.messages], self._history(question))[0]
                said = said_before(question.messages) if question.no_repeat else frozenset[str]()
                asked.append(_Asked(place, question, read, said))
            except InputError as error:
                results[place] = error
        if not asked:
            return results
        model = remembering(self.encoder)
        whole = [row for row, each in enumerate(asked) if self._history(each.question) is None]
        for row, read in zip(whole, on_subject(model, [asked[row].read for row in whole]), strict=True):
            asked[row] = asked[row]._replace(read=read)
        vectors = encode_queries(model, [each.read for each in asked])
        groups: dict[str, list[int]] = {}
        for row, each in enumerate(asked):
            groups.setdefault(each.question.search, []).append(row)
        for rows in groups.values():
            queries = vectors.take(rows) if isinstance(vectors, ContextVectors) else vectors[rows]
            try:
                found: Sequence[Any] = self._search([asked[row] for row in rows], queries)
            except InputError as error:
                found = [error] * len(rows)
            for row, result in zip(rows, found, strict=True):
                results[asked[row].place] = result
        return results

    def beside(self, questions: list[Question]) -> list[dict[str, Any] | InputError]:
        """Do the same with the second index."""
        if self.second is None:
            raise InputError("this server has no second index; start it with --beside INDEX")
        return self.second.replies(questions)

    def queries(self, texts: list[list[str]]) -> list[tuple[FloatArray, int]]:
        """Encode texts, of several requests, as conversations of one message: (n, d) each, and their tokens."""
        vectors = self.encoder.encode_contexts([[text] for part in texts for text in part])
        if isinstance(vectors, ContextVectors) or vectors.ndim != 2:
            raise InputError(f"{self.model} gives a conversation several vectors; take input_type 'document' here")
        return self._counted(vectors, texts)

    def documents(self, texts: list[list[str]]) -> list[tuple[FloatArray, int]]:
        """Encode texts, of several requests, as responses: (n, d) each, and their tokens."""
        return self._counted(self.encoder.encode_responses([text for part in texts for text in part]), texts)

    def scores(self, pairs: list[tuple[str, list[str]]]) -> list[FloatArray]:
        """Score texts, (n,) for each message, with the slow model if there is one, else the index's."""
        contexts = [[message] for message, _ in pairs]
        texts = [documents for _, documents in pairs]
        if self.ranker is not None:
            return score_lists(self.ranker, contexts, texts)
        vectors = self.encoder.encode_contexts(contexts)
        queries = vectors if isinstance(vectors, ContextVectors) or vectors.ndim == 3 else vectors[:, None]
        rows = self.documents(texts)
        return [all_scores(own, [query])[0] for query, (own, _) in zip(queries, rows, strict=True)]

    def intents(self, texts: list[list[str]]) -> list[list[dict[str, Any]]]:
        """Classify the texts of several requests."""
        assert self.classifier is not None
        found = [
            {
                "labels": list(each.labels),
                "out_of_scope": each.out_of_scope,
                "ranking": [{"label": name, "probability": p} for name, p in each.ranking],
            }
            for each in self.classifier.predict([text for part in texts for text in part])
        ]
        return _split(found, texts)

    def candidates(self, pages: list[tuple[int, int]]) -> list[tuple[list[dict[str, Any]], int]]:
        """Return candidates from a position on, so many at most, and how many there are in all."""
        results = []
        for first, most in pages:
            found = zip(range(most), self.index.candidates(first), strict=False)
            page = [{"position": at, "text": c.text, "payload": dict(c.payload)} for _, (at, c) in found]
            results.append((page, len(self.index)))
        return results

    def add(self, lists: list[list[Candidate]]) -> list[tuple[list[int], bool]]:
        """Add the candidates of several requests at once; return their positions, and whether to compact the index."""

        def change(index: Index) -> tuple[list[int], bool]:
            added = index.add([candidate for part in lists for candidate in part])
            return list(added), _is_fragmented(index)

        added, is_fragmented = self._change(change)
        return [(positions, is_fragmented) for positions in _split(added, lists)]

    def compact(self, asked: list[None]) -> list[None]:
        """Compact the index, unless another process has done so."""
        self._change(lambda index: index.compact() if _is_fragmented(index) else 0)
        return asked

    def delete(self, positions: list[int]) -> list[int]:
        """Delete what several requests name at once; return of each how many it was."""
        self._change(lambda index: index.delete(positions))
        return [1] * len(positions)

    # ------------------------------------------------------------------------------------------------------------------

    def _shown(self) -> dict[str, Any]:
        """Return what the page says of the index."""
        calibrated = (self.sources.index / CALIBRATION).is_file()
        return {"index": self.sources.index.name, "model": self.model, "size": self.index.manifest.size,
                "candidates": len(self.index), "calibrated": calibrated}  # fmt: skip

    def _counted(self, vectors: FloatArray, texts: list[list[str]]) -> list[tuple[FloatArray, int]]:
        """Cut vectors into those of each request, with the tokens read; 0 of a model that is not Rejoinder's own."""
        counts = np.zeros(len(vectors), dtype=np.int64)
        if isinstance(self.encoder, TruncationCounter):
            flat = [text for part in texts for text in part]
            counts += encode_messages(self.encoder.tokenizer, flat, self.encoder.message_length)[1]
        parts = zip(_split(vectors, texts), _split(counts, texts), strict=True)
        return [(own, int(tokens.sum())) for own, tokens in parts]

    def _history(self, question: Question) -> int | None:
        """Return how many earlier messages are read; refuse what a calibration does not hold for."""
        if question.minimum_confidence is None:
            return question.history
        if self._confident is None:
            self._confident = Confident(self.index)
        read = self._confident.calibration.history
        if question.history not in (None, read):
            raise InputError(f"the index was calibrated with history {json.dumps(read)}; leave history out")
        if question.where or question.diversity or question.hybrid or question.rerank or not question.distinct:
            unlike = "where, diversity, hybrid, rerank or distinct: false"
            raise InputError(f"minimum_confidence is calibrated for the best of all distinct replies; without {unlike}")
        return read

    def _search(self, asked: Sequence[_Asked], queries: Any) -> list[dict[str, Any]]:
        """Find replies for questions that want the same of the search."""
        like = asked[0].question
        options: dict[str, Any] = {
            "said": [each.said for each in asked],
            "distinct": like.distinct,
            "where": like.where,
            "hybrid": like.hybrid,
            "inputs": [each.read[-1] for each in asked],
        }
        if like.minimum_confidence is not None:
            assert self._confident is not None
            found = self.index.search_vectors(queries, max(like.k, 2), None, **options)
            sure = self._confident.judge(found, like.minimum_confidence, like.k, like.minimum_score)
            return [{"replies": _plain(answer.replies), "confidence": answer.confidence} for answer in sure]
        if like.rerank:
            if self.ranker is None:
                raise InputError("this server has no second model; start it with --rerank MODEL")
            cascade = Cascade(self.index, self.ranker, self.sources.rerank_top)
            if like.k > cascade.top or like.diversity:
                raise InputError(f"with rerank, k goes from 1 to {cascade.top}, and diversity is 0")
            found = self.index.search_vectors(queries, cascade.top, None, **options)
            found = cascade.rank([each.read for each in asked], found, like.k, like.minimum_score)
        else:
            options["diversity"] = like.diversity
            found = self.index.search_vectors(queries, like.k, like.minimum_score, **options)
        return [{"replies": _plain(replies), "confidence": None} for replies in found]

    def _change(self, change: Callable[[Index], T]) -> T:
        """Change the index on disk; wait while another process is changing it."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return change(self._opened())
            except BusyError:
                if time.monotonic() > end:
                    raise
                time.sleep(PAUSE)

    def _opened(self) -> Index:
        try:
            return Index.open(self.sources.index, self.encoder, verify=False)
        except (InputError, OSError) as error:
            raise UnavailableError(f"the index cannot be opened, so nothing was changed: {error}") from None

    def _stamp(self) -> object:
        stamp = []
        for name in (MANIFEST, CALIBRATION):
            with contextlib.suppress(OSError):
                found = (self.sources.index / name).stat()
                stamp += [name, found.st_ino, found.st_mtime_ns, found.st_size]
        return stamp

    def _refresh(self) -> None:
        """Take in what this server, another worker or the command has changed; else go on with what there is."""
        if (stamp := self._stamp()) == self._seen or time.monotonic() < self._again:
            return
        try:
            self.index.refresh()
            self._seen, self._confident = stamp, None
        except (InputError, OSError) as error:
            self._again = time.monotonic() + AGAIN
            logger.warning("the index has changed and cannot be opened; the earlier one goes on answering",
                           extra={"fields": {"reason": str(error)}})  # fmt: skip


def _is_fragmented(index: Index) -> bool:
    """Return whether compacting pays off; what an approximate search needs would be lost."""
    manifest = index.manifest
    size = sum(size for record in manifest.segments for size, _ in record.files.values())
    return manifest.approximate is None and len(manifest.segments) > max(SEGMENTS, size // SEGMENT_BYTES)


def _open_classifier(folder: Path) -> IntentClassifier | OnnxIntents:
    """Open a classifier, or its ONNX folder, which needs no PyTorch."""
    if (folder / ONNX).is_file():
        from rejoinder.intents.onnx import OnnxIntents

        return OnnxIntents(folder)
    from rejoinder.intents.folder import load_classifier

    return load_classifier(folder)


def _plain(replies: Sequence[Reply]) -> list[dict[str, Any]]:
    return [reply.to_json() for reply in replies]


def _split(values: Any, like: Sequence[Sequence[Any]]) -> list[Any]:
    """Cut values into parts as long as those of `like`."""
    ends = np.cumsum([len(part) for part in like]).tolist()
    return [values[end - len(part) : end] for part, end in zip(like, ends, strict=True)]
