"""Errors of rankers that learn from examples before they score."""

from __future__ import annotations

from collections.abc import Sequence

from rejoinder.corpora.schema import Example
from rejoinder.errors import InputError, RejoinderError


def require_examples(examples: Sequence[Example], count: int, name: str) -> None:
    """Raise InputError if there are fewer than `count` examples."""
    if len(examples) < count:
        raise InputError(
            f"{name} learns from training examples:"
            f" {len(examples)} given, {count} or more are needed"
        )


def not_fitted(name: str) -> RejoinderError:
    """Return the error of a ranker that is asked for scores before `fit`."""
    return RejoinderError(
        f"{name} has not learned anything yet; call fit(examples) with training examples first"
    )
