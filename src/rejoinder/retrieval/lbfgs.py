"""L-BFGS for a strictly convex loss (Nocedal and Wright, 2006, algorithms 7.4 and 7.5).

SciPy and PyTorch offer the same. The base installation lacks SciPy, and a server lacks PyTorch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rejoinder.arrays import FloatArray

MEMORY = 8
LEAST_DECREASE = 1e-4  # Armijo's condition
LEAST_RATE = 1e-6  # below, the loss is as low as float32 can tell


class Step(NamedTuple):
    """A step, the change of the gradient along it, and their product."""

    moved: FloatArray
    change: FloatArray
    curvature: float


def minimise(
    loss_and_gradient: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    steps: int,
) -> FloatArray:
    """Return the point that at most `steps` steps from `start` reach; none raises the loss."""
    point = start
    loss, gradient = loss_and_gradient(point)
    memory: deque[Step] = deque(maxlen=MEMORY)
    for _ in range(steps):
        direction = -_times_inverse_hessian(gradient, memory)
        slope = _dot(gradient, direction)
        rate = 1.0
        while rate > LEAST_RATE:
            moved = np.float32(rate) * direction
            new_loss, new_gradient = loss_and_gradient(point + moved)
            if new_loss <= loss + LEAST_DECREASE * rate * slope:
                break
            rate /= 2
        else:
            return point
        change = new_gradient - gradient
        curvature = _dot(change, moved)
        if curvature > 0:
            memory.append(Step(moved, change, curvature))
        point = point + moved
        loss = new_loss
        gradient = new_gradient
    return point


def _times_inverse_hessian(gradient: FloatArray, memory: Sequence[Step]) -> FloatArray:
    """Return the inverse Hessian that the last steps suggest, times the gradient."""
    if not memory:  # the first step is no longer than 1
        length = float(np.linalg.norm(gradient))
        return gradient * np.float32(1 / max(1.0, length))
    result = gradient.copy()
    shares = []
    for step in reversed(memory):
        share = _dot(step.moved, result) / step.curvature
        result -= np.float32(share) * step.change
        shares.append(share)
    newest = memory[-1]
    result *= np.float32(newest.curvature / _dot(newest.change, newest.change))
    for step, share in zip(memory, reversed(shares), strict=True):
        result += np.float32(share - _dot(step.change, result) / step.curvature) * step.moved
    return result


def _dot(a: FloatArray, b: FloatArray) -> float:
    return float(np.vdot(a, b))
