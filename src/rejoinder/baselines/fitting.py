"""What a baseline needs that learns from training examples: TF-IDF its word frequencies, MAP its matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from rejoinder.corpora.example import Example
from rejoinder.errors import InputError, RejoinderError

FIT_EXAMPLES = 10_000
"""Training examples that a baseline learns from (DATA19, section 5)."""

Progress = Callable[[int], None]
"""Called with the number of texts just done."""


@runtime_checkable
class Fitted(Protocol):
    """A ranker that is fitted to training examples before it can score."""

    def fit(self, examples: Sequence[Example], progress: Progress | None = None) -> Mapping[str, Any]:
        """Forget what was learned before and learn from `examples`.

        Args:
            examples: training examples, never those that are ranked afterwards.
            progress: called as the texts are read: two for each example.

        Returns:
            What was learned, to be shown to users, of types that JSON has.

        Raises:
            InputError: too few examples.
        """
        ...


def at_least(examples: Sequence[Example], count: int, name: str) -> None:
    """Refuse to fit with fewer than `count` examples."""
    if len(examples) < count:
        raise InputError(f"{name} learns from training examples: {len(examples)} given, {count} or more are needed")


def not_fitted(name: str) -> RejoinderError:
    """The error of a ranker that was asked for scores too early."""
    return RejoinderError(f"{name} has not learned anything yet; call fit(examples) with training examples first")
