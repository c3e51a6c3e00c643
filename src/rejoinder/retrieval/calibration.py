"""Confidence: how probably the best reply is right, so that a system can decline to answer.

A logistic regression on the best reply's score and its gap to the second, fitted on held-out
conversations, is kept with the index as calibration.json. It holds for that index, as it
was, alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from rejoinder.checks import check_count
from rejoinder.conversations import Conversation
from rejoinder.corpora.keys import text_key
from rejoinder.corpora.schema import Example
from rejoinder.corpora.sent_replies import with_sent_replies
from rejoinder.digests import is_altered
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.json_parsing import parse_json
from rejoinder.progress import Advance, silent
from rejoinder.retrieval.encoding.confidence import (
    FORMAT,
    LEAST,
    Calibration,
    Probabilities,
    score_and_gap,
)
from rejoinder.retrieval.options import ANY_SCORE, SearchOptions
from rejoinder.retrieval.reader import IndexReader
from rejoinder.retrieval.replies import Reply
from rejoinder.stores.names import CALIBRATION

FOLDS = 5

_BATCH = 256


class Fit(NamedTuple):
    """A calibration, and what it was fitted on: n conversations."""

    calibration: Calibration
    # (n,) for each conversation by a fit without its fifth of the threads
    probabilities: Probabilities
    right: npt.NDArray[np.bool_]  # (n,) whether the best reply was right
    # conversations whose response the index does not have, so that no reply could be right
    absent: int


class Answer(NamedTuple):
    """Replies, none if the best is not probable enough, and how probably the best is right."""

    replies: list[Reply]
    confidence: float | None


class CalibratedIndex:
    """A calibrated index, which answers only where its best reply is probably right.

    Args:
        index: one that was calibrated.
        after_changes: take the calibration of its earlier replies, too. A server does, rather than
            answer nobody after each change.

    Raises:
        InputError: the index has no calibration, or one of another model; of other replies, if not
            `after_changes`.
    """

    def __init__(self, index: IndexReader, *, after_changes: bool = False) -> None:
        self.index = index
        self.calibration = read_calibration(index, after_changes=after_changes)
        self._after_changes = after_changes

    @property
    def outdated(self) -> str | None:
        """Advice on replies that have changed since the calibration; None: none has."""
        return _outdated(self.calibration, self.index)

    def answer(
        self,
        contexts: Sequence[Conversation],
        minimum_confidence: float,
        k: int = 5,
        minimum_score: float | None = None,
        *,
        no_repeat: bool = False,
    ) -> list[Answer]:
        """Find at most k distinct replies to each context.

        Of contexts as much is read as was for the calibration.

        Raises:
            InputError: the index was changed after its calibration; see also `Index.search`.

        """
        options = SearchOptions(
            k=k,
            minimum_score=minimum_score,
            minimum_confidence=minimum_confidence,
            no_repeat=no_repeat,
            distinct=True,
        )
        return self.find(contexts, options)

    def find(self, contexts: Sequence[Conversation], options: SearchOptions) -> list[Answer]:
        """Find the replies to each context; none where the best is below `minimum_confidence`."""
        _check(self.calibration, self.index, after_changes=self._after_changes)
        options = self.with_history(options)
        return self.apply_threshold(self.index.find(contexts, options.first_search), options)

    def with_history(self, options: SearchOptions) -> SearchOptions:
        """Return options with the calibration's history; another one is an InputError."""
        history = self.calibration.history
        if options.history not in (None, history):
            calibrated = "all earlier messages" if history is None else f"history {history}"
            raise InputError(
                f"the index was calibrated with {calibrated}; leave history out, or calibrate "
                f"again with --history {options.history}"
            )
        return replace(options, history=history)

    def apply_threshold(self, found: Sequence[list[Reply]], options: SearchOptions) -> list[Answer]:
        """Return the answers of lists of distinct replies, of at least two where there are."""
        minimum_score = -np.inf if options.minimum_score is None else options.minimum_score
        minimum_confidence = options.minimum_confidence or 0.0
        answers = []
        for replies, probability in zip(
            found, self.calibration.probabilities(found).tolist(), strict=True
        ):
            is_sure = probability >= minimum_confidence
            kept = [
                reply for reply in replies[: options.k] if is_sure and reply.score >= minimum_score
            ]
            answers.append(Answer(kept, probability))
        return answers


def calibrate(
    index: IndexReader,
    examples: Sequence[Example],
    *,
    history: int | None = None,
    seed: int = 0,
    progress: Advance = silent,
) -> Fit:
    """Fit a calibration on examples that the model has not learned from.

    The best reply is right if `corpora.sent_replies` recognises it in the example's response. Where
    the index lacks the response, the best is wrong. `progress` gets the number of examples just
    searched for.

    Raises:
        InputError: too few right or wrong best replies to fit; scikit-learn is missing.

    """
    check_count("seed", seed, 0)
    if history is not None:
        check_count("history", history, 0)
    try:
        from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict

        regression = _regression()
    except ImportError as error:
        raise MissingExtraError("calibrating an index", "intents") from error
    results = []
    for start in range(0, len(examples), _BATCH):
        batch = [example.context for example in examples[start : start + _BATCH]]
        results += index.search(batch, 2, ANY_SCORE, history=history, distinct=True)
        progress(len(batch))
    texts = [candidate.text for _, candidate in index]
    known = set(map(text_key, texts))
    responses = [text_key(example.response) for example in with_sent_replies(examples, texts)]
    best = [text_key(replies[0].text) if replies else None for replies in results]
    right = np.array(
        [one == other for one, other in zip(best, responses, strict=True)], dtype=np.bool_
    )
    threads = [
        (e.source, e.thread) if e.thread else position for position, e in enumerate(examples)
    ]
    numbers = {thread: number for number, thread in enumerate(dict.fromkeys(threads))}
    groups = np.array([numbers[thread] for thread in threads], dtype=np.int64)
    for what, rows, advice in (
        ("right", right, "or replies that they use"),
        ("wrong", ~right, "such as real ones that no reply answers"),
    ):
        if (count := len(np.unique(groups[rows]))) < LEAST:
            raise InputError(
                f"the best reply of {index.store} is {what} in {count} of {len(numbers)} "
                f"conversations; a calibration needs {LEAST} right and {LEAST} wrong ones: give "
                f"more conversations, {advice}"
            )
    features = score_and_gap(results)
    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    held_out = cross_val_predict(
        regression, features, right, groups=groups, cv=folds, method="predict_proba"
    )[:, 1]
    calibration = _calibration(
        regression.fit(features, right),
        index=index.fingerprint,
        model=index.manifest.model.fingerprint,
        history=history,
    )
    return Fit(calibration, held_out, right, sum(response not in known for response in responses))


def _regression() -> Any:
    """Return the regression, on standardised features.

    The penalty (C = 1) then means the same for scores of any size.

    It matters where data is scarce.

    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression())


def _calibration(regression: Any, *, index: str, model: str, history: int | None) -> Calibration:
    scaler, logistic = (step for _, step in regression.steps)
    weights = logistic.coef_[0] / scaler.scale_
    return Calibration(
        index=index,
        model=model,
        history=history,
        score_weight=float(weights[0]),
        gap_weight=float(weights[1]),
        intercept=float(logistic.intercept_[0] - weights @ scaler.mean_),
    )


def read_calibration(index: IndexReader, *, after_changes: bool = False) -> Calibration:
    """Return the calibration of an index.

    One that is missing, altered, or of another index is an InputError; one of its earlier replies
    is returned `after_changes`.
    """
    if not index.store.has_file(CALIBRATION):
        raise InputError(f"{index.store} is not calibrated; {_command(index)}")
    shown = f"the calibration of {index.store}"
    try:
        text = index.store.read_file(CALIBRATION).decode()
        content: dict[str, Any] = parse_json(text)
        if is_altered(content):
            raise ValueError("altered after it was written")
        if content["format"] != FORMAT:
            raise InputError(
                f"{shown} has format {content['format']}; this version reads {FORMAT}: update "
                "rejoinder"
            )
        calibration = msgspec.convert(content, Calibration)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{shown} is damaged ({error}); {_again(index)}") from None
    _check(calibration, index, after_changes=after_changes)
    return calibration


def why_uncalibrated(index: IndexReader) -> str | None:
    """Return why an index has no calibration that still holds; None: it has one."""
    head = index.manifest.head
    if head is not None and head.held_out and not index.store.has_file(CALIBRATION):
        # Else the examples that were left out would have calibrated it.
        return f"too few of them found their reply; {_command(index)}"
    try:
        read_calibration(index)
    except InputError as error:
        return str(error)
    return None


def _check(calibration: Calibration, index: IndexReader, *, after_changes: bool) -> None:
    if calibration.model != index.manifest.model.fingerprint:
        raise InputError(
            f"the calibration in {index.store} is of another model's scores; {_again(index)}"
        )
    outdated = _outdated(calibration, index)
    if outdated is not None and not after_changes:
        raise InputError(outdated)


def _outdated(calibration: Calibration, index: IndexReader) -> str | None:
    manifest = index.manifest
    if calibration.index in (manifest.fingerprint, manifest.same_as):
        return None
    return f"the calibration in {index.store} is of other replies than it has now; {_again(index)}"


def _again(index: IndexReader) -> str:
    head = index.manifest.head
    if head is not None and head.held_out:
        return (
            f"calibrate again: rejoinder learn {shlex.quote(str(index.store))} takes its own"
            f" examples; or {_command(index)}"
        )
    return f"calibrate again: {_command(index)}"


def _command(index: IndexReader) -> str:
    """Return the command that calibrates an index, as a shell reads it."""
    return f"rejoinder calibrate {shlex.quote(str(index.store))} --data CONVERSATIONS"
