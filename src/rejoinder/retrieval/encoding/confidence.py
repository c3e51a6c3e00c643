"""Confidence: how probably a best reply is right, by its score and its gap to the second.

The weights of the logistic regression are kept with an index as calibration.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rejoinder.digests import signed
from rejoinder.retrieval.encoding.held_out import HeldOutScores
from rejoinder.stores.address import store_of
from rejoinder.stores.manifest import Manifest
from rejoinder.stores.names import CALIBRATION
from rejoinder.stores.store import Store

# conversations with a right best reply, and with a wrong one, from which a calibration is fitted
LEAST = 10

NEWTON_STEPS = 50

TOLERANCE = 1e-6  # of the gradient

TINY = 1e-9

FORMAT = 1

Probabilities = npt.NDArray[np.float64]


class Scored(Protocol):
    """A result with a score."""

    @property
    def score(self) -> float:
        """Its score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """p = 1 / (1 + exp(-(score_weight·score + gap_weight·gap + intercept))) for one index."""

    index: str  # fingerprint
    model: str  # fingerprint
    history: int | None  # earlier messages that were read at most; see `Index.search`
    score_weight: float
    gap_weight: float
    intercept: float

    def probabilities(self, found: Sequence[Sequence[Scored]]) -> Probabilities:
        """Return for each list of distinct replies how probably its first is right.

        0 for an empty one.
        """
        logits = score_and_gap(found) @ [self.score_weight, self.gap_weight] + self.intercept
        return np.where(
            [bool(replies) for replies in found], np.exp(-np.logaddexp(0, -logits)), 0.0
        )

    def save(self, store: str | Path | Store) -> None:
        """Keep the calibration with its index, in place of an earlier one.

        Raises:
            BusyError: somebody else has been changing the index for too long; see `Store.lock`.
        """
        text = json.dumps(signed({"format": FORMAT, **asdict(self)}), indent=1)
        own = store_of(store)
        with own.lock():  # a change would sweep away the file that is being written
            own.write_file(CALIBRATION, (text + "\n").encode())


def from_held_out(held_out: HeldOutScores | None, manifest: Manifest) -> Calibration | None:
    """Return a calibration of an index by the examples that its head was not fitted to.

    Messages of the background, which no reply answers, are wrong whatever is found. None: there are
    too few.
    """
    if held_out is None:
        return None
    right = held_out.right & held_out.is_own
    if min(right.sum(), (~right).sum()) < LEAST:
        return None
    features = np.stack([held_out.best, held_out.gap], axis=1)
    # The background is larger or smaller than what is asked in earnest; both halves count alike.
    shares = np.where(
        held_out.is_own, 1.0, held_out.is_own.sum() / max(1, (~held_out.is_own).sum())
    )
    weights, intercept = fit_logistic(features, right, shares)
    return Calibration(
        index=manifest.fingerprint,
        model=manifest.model.fingerprint,
        history=None,
        score_weight=float(weights[0]),
        gap_weight=float(weights[1]),
        intercept=intercept,
    )


def fit_logistic(
    features: npt.NDArray[np.float64], right: npt.NDArray[np.bool_], shares: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], float]:
    """Fit a logistic regression with an L2 penalty (C = 1) on standardised features (n, f).

    Return the weights (f,) and the intercept for the features as they were given. `right` are the
    n labels, `shares` the weights of the rows. Newton's method, since an index is built without
    scikit-learn, whose import takes longer than the fit of thousands.
    """
    mean = features.mean(axis=0)
    spread = features.std(axis=0)
    spread[spread == 0] = 1.0
    x = np.column_stack([(features - mean) / spread, np.ones(len(features))])
    penalty = np.append(np.ones(features.shape[1]), 0.0)
    signs = np.where(right, 1.0, -1.0)

    def loss(theta: npt.NDArray[np.float64]) -> float:
        missed = np.logaddexp(0.0, -signs * (x @ theta))
        return float(shares @ missed + penalty @ np.square(theta) / 2)

    theta = np.zeros(x.shape[1])
    for _ in range(NEWTON_STEPS):
        odds = 1 / (1 + np.exp(-np.clip(x @ theta, -500, 500)))
        gradient = x.T @ (shares * (odds - right)) + penalty * theta
        hessian = (x * (shares * odds * (1 - odds))[:, None]).T @ x + np.diag(penalty + TINY)
        step = np.linalg.solve(hessian, gradient)
        rate = 1.0
        while loss(theta - rate * step) > loss(theta) and rate > TINY:
            rate /= 2
        theta = theta - rate * step
        if np.abs(gradient).max() < TOLERANCE:
            break
    weights = theta[:-1] / spread
    return weights, float(theta[-1] - weights @ mean)


def score_and_gap(found: Sequence[Sequence[Scored]]) -> Probabilities:
    """Return score and gap of the best replies: (n, 2).

    The gap is 0 where there is no second one.
    """
    rows = [
        [replies[0].score, replies[0].score - replies[:2][-1].score] if replies else [0, 0]
        for replies in found
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 2)
