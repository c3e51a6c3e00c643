"""Multinomial logistic regression near a start, by L-BFGS that the curvature of each class scales.

SciPy's L-BFGS-B takes longer, and 110 MB more than a base of 250 (docs/choices.md); a server loads
no PyTorch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray

SCALE = 8.0  # of the logits
VARIANCE = 30.0  # of the weights around the start: the greater, the weaker the penalty
FIRST_GUESS = 2.0  # times the start: about where the loss is least along its ray
FIRST_GUESS_OF_NONE = 6.0  # of the last class, "none of these", which has a third of the weight
FIRST_STEP = 0.2  # of the first guess's length, at most: the curvature soon changes
STEPS = 14
LEAST_GAIN = 0.003  # of the loss: no step is taken that promises no more
MEMORY = 8  # steps that are remembered
LEAST_DECREASE = 1e-4  # Armijo's condition
LEAST_RATE = 1e-6  # below, the loss is as low as float32 can tell
_PRODUCTS_AT_ONCE = 1 << 20  # 4 MB: more are read again from memory, fewer multiply more slowly


def regress(
    rows: FloatArray,
    classes: npt.NDArray[np.int64],
    weights: FloatArray,
    start: FloatArray,
    guess: FloatArray | None = None,
) -> FloatArray:
    """Return the weights u (n, d) of a logistic regression with logits SCALE·u·z.

    Its loss is the sum of w·(cross-entropy) over the rows z (N, d) of length 1, and
    |SCALE·(u - start)|² / (2·VARIANCE). `guess` is near its minimum, if that is known.
    """
    z = np.float32(SCALE) * rows
    targets = classes[:, None]
    shares = weights.astype(np.float32)[:, None]
    step = max(1, _PRODUCTS_AT_ONCE // len(start))
    size = start.shape[1]

    def evaluate(u: FloatArray) -> LocalLoss:
        change = np.float32(SCALE) * (u - start)
        loss = float(np.square(change).sum()) / (2 * VARIANCE)
        gradient = change * np.float32(SCALE / VARIANCE)
        curvature = np.full((len(start), 1), SCALE**2 / VARIANCE, np.float32)
        for begin in range(0, len(z), step):
            part = slice(begin, begin + step)
            logits = z[part] @ u.T
            logits -= logits.max(axis=1, keepdims=True)
            own = np.take_along_axis(logits, targets[part], axis=1)
            probabilities = np.exp(logits, out=logits)
            totals = probabilities.sum(axis=1, keepdims=True)
            loss += float((shares[part] * (np.log(totals) - own)).sum())
            probabilities /= totals
            errors = probabilities * shares[part]
            variances = errors.sum(axis=0) - np.einsum("nk,nk->k", errors, probabilities)
            curvature += variances[:, None] * np.float32(SCALE**2 / size)  # rows z have length 1
            errors[np.arange(len(errors)), classes[part]] -= weights[part]
            gradient += errors.T @ z[part]
        return LocalLoss(loss, gradient, curvature)

    if guess is None:
        guess = np.float32(FIRST_GUESS) * start
        guess[-1:] = np.float32(FIRST_GUESS_OF_NONE) * start[-1:]
    return minimise(evaluate, guess, STEPS)


class NewtonStep(NamedTuple):
    """A step of L-BFGS, the change of the gradient along it, and their product."""

    moved: FloatArray
    change: FloatArray
    curvature: float


class LocalLoss(NamedTuple):
    """A loss at a point (n, d), its gradient there, and the curvature of each row.

    The curvature (n, 1) is the mean of the Hessian's diagonal.
    """

    loss: float
    gradient: FloatArray
    curvature: FloatArray


def minimise(
    evaluate: Callable[[FloatArray], LocalLoss], start: FloatArray, steps: int
) -> FloatArray:
    """Return the point that at most `steps` steps from `start` reach; none raises the loss.

    This is L-BFGS for a strictly convex loss (Nocedal and Wright, 2006, algorithms 7.4 and 7.5,
    with the line search of section 3.5). It ends where a step along the direction of Newton's
    method promises little: half of its slope.
    """
    point = start
    current = evaluate(point)
    memory: deque[NewtonStep] = deque(maxlen=MEMORY)
    for _ in range(steps):
        direction = -_times_inverse_hessian(current, memory)
        slope = _dot(current.gradient, direction)
        if -slope / 2 <= LEAST_GAIN * current.loss:
            break
        rate = 1.0 if memory else _first_rate(point, direction)
        while rate > LEAST_RATE:
            moved = np.float32(rate) * direction
            tried = evaluate(point + moved)
            if tried.loss <= current.loss + LEAST_DECREASE * rate * slope:
                break
            # Try the least of the parabola through both losses, with this slope.
            least = -slope * rate**2 / (2 * (tried.loss - current.loss - slope * rate))
            rate = min(max(least, rate / 10), rate / 2)
        else:
            return point
        change = tried.gradient - current.gradient
        curvature = _dot(change, moved)
        if curvature > 0:
            memory.append(NewtonStep(moved, change, curvature))
        point = point + moved
        current = tried
    return point


def _times_inverse_hessian(current: LocalLoss, memory: Sequence[NewtonStep]) -> FloatArray:
    """Return the inverse Hessian that the last steps suggest, times the gradient."""
    if not memory:
        return current.gradient / current.curvature
    result = current.gradient.copy()
    shares = []
    for step in reversed(memory):
        share = _dot(step.moved, result) / step.curvature
        result -= np.float32(share) * step.change
        shares.append(share)
    # The steps have seen a part of the curvature, so its root is right for the rest.
    scale = np.asarray(current.curvature**-0.5, np.float32)
    newest = memory[-1]
    result *= np.float32(newest.curvature / _dot(newest.change, newest.change * scale)) * scale
    for step, share in zip(memory, reversed(shares), strict=True):
        result += np.float32(share - _dot(step.change, result) / step.curvature) * step.moved
    return result


def _first_rate(point: FloatArray, direction: FloatArray) -> float:
    """Return the rate of the first step along a direction; see `FIRST_STEP`."""
    length = float(np.linalg.norm(direction))
    most = FIRST_STEP * float(np.linalg.norm(point))
    return 1.0 if length <= most else most / length


def _dot(a: FloatArray, b: FloatArray) -> float:
    return float(np.vdot(a, b))
