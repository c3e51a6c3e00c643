"""Limited-memory BFGS for smooth convex functions (Nocedal and Wright, "Numerical Optimization", algorithms 7.4, 7.5).

PyTorch has one too, but its optimisers import its compiler at their first step, which takes longer than the training of
a classifier on a few hundred texts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

Function = Callable[[Tensor], tuple[float, Tensor]]
"""A point (p,) to the value there and the gradient (p,)."""

SUFFICIENT = 1e-4
"""Share of the linearly predicted decrease that a step must bring (Armijo's condition)."""

HALVINGS = 20


def minimise(
    function: Function, start: Tensor, *, iterations: int, memory: int = 10, tolerance: float = 1e-6
) -> tuple[Tensor, int]:
    """Find the minimum of a convex function.

    A convex function's gradient grows along every step, so that halving the step until the value has fallen enough
    keeps the approximation of the curvature positive: no search for the curvature condition is needed.

    Args:
        function: value and gradient.
        start: where to begin, (p,).
        iterations: steps at most.
        memory: steps that the approximation of the curvature is made of.
        tolerance: largest gradient at which the minimum is taken as found.

    Returns:
        The point, and the steps taken.
    """
    point, (value, gradient) = start, function(start)
    known: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=memory)
    for step in range(iterations):
        if float(gradient.abs().max()) <= tolerance:
            return point, step
        direction = _direction(gradient, known)
        # Without any curvature known, the first step has length 1 at most.
        length = 1.0 if known else min(1.0, 1.0 / float(gradient.norm()))
        slope = float(direction @ gradient)
        found = _search(function, point, value, direction, slope, length)
        if found is None:  # below what float32 tells apart
            return point, step
        new, new_value, new_gradient = found
        moved, turned = new - point, new_gradient - gradient
        curvature = float(moved @ turned)
        if curvature > 1e-12 * float(turned @ turned):
            known.append((moved, turned, 1.0 / curvature))
        point, value, gradient = new, new_value, new_gradient
    return point, iterations


def _search(
    function: Function, point: Tensor, value: float, direction: Tensor, slope: float, length: float
) -> tuple[Tensor, float, Tensor] | None:
    """The first of ever shorter steps after which the value has fallen enough; None if none has."""
    for _ in range(HALVINGS):
        new = point + length * direction
        new_value, new_gradient = function(new)
        if new_value <= value + SUFFICIENT * length * slope:
            return new, new_value, new_gradient
        length /= 2
    return None


def _direction(gradient: Tensor, known: deque[tuple[Tensor, Tensor, float]]) -> Tensor:
    """Minus the approximated inverse Hessian times the gradient: the two-loop recursion."""
    direction = -gradient
    shares = []
    for moved, turned, inverse in reversed(known):
        share = inverse * float(moved @ direction)
        direction = torch.sub(direction, turned, alpha=share)
        shares.append(share)
    if known:
        _, turned, inverse = known[-1]
        direction = direction / (inverse * float(turned @ turned))
    for (moved, turned, inverse), share in zip(known, reversed(shares), strict=True):
        direction = torch.add(direction, moved, alpha=share - inverse * float(turned @ direction))
    return direction
