"""Means with intervals.

Intervals are percentiles of a bootstrap (Efron and Tibshirani 1993, "An Introduction to the
Bootstrap", chapter 13) over units drawn whole (chapter 8).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError

CONFIDENCE = 0.95
RESAMPLES = 1000
_DRAWS_AT_ONCE = 2**20  # bounds the memory to some 20 MB


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and the ends of its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


def estimates(
    values: npt.NDArray[np.float64],
    units: npt.NDArray[np.int64],
    bounds: tuple[float, float] = (0.0, 1.0),
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Estimate]:
    """Return the mean and percentile interval of each column of `values` (n, s).

    A resample draws as many of the `units` (n,), numbered from 0 without gaps, as there are, with
    replacement, and takes the mean over their observations. Equal seeds and units give equal draws.
    A single unit says nothing about the error, so its interval is `bounds`, the least and greatest
    possible mean.
    """
    if len(values) == 0:
        raise InputError("no examples to average; give one or more")
    means = values.mean(axis=0)
    if units.max() == 0:
        low, high = bounds
        return [Estimate(float(mean), low, high) for mean in means]
    # Units are reduced to sums and counts once, so a resample costs their number, not n.
    sums = np.stack([np.bincount(units, weights=column) for column in values.T], axis=1)
    sizes = np.bincount(units).astype(np.float64)
    rng = np.random.default_rng(seed)
    draws = np.empty((resamples, values.shape[1]))
    count = len(sizes)
    step = max(1, _DRAWS_AT_ONCE // count)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = rng.integers(count, size=(rows, count)) + count * np.arange(rows)[:, None]
        times = (
            np.bincount(drawn.ravel(), minlength=rows * count)
            .reshape(rows, count)
            .astype(np.float64)
        )
        draws[start : start + rows] = times @ sums / (times @ sizes)[:, None]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(draws, (tail, 1 - tail), axis=0)
    return [
        Estimate(float(m), float(a), float(b)) for m, a, b in zip(means, low, high, strict=True)
    ]
