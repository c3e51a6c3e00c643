"""What baselines share that learn from training examples: TF-IDF its word frequencies, MAP its matrix."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from rejoinder.corpora.example import Example
from rejoinder.errors import InputError, MissingExtraError, RejoinderError
from rejoinder.progress import Advance

FIT_EXAMPLES = 10_000  # training examples that a baseline learns from (DATA19, section 5)


@runtime_checkable
class Fitted(Protocol):
    """A ranker that is fitted to training examples before it can score."""

    def fit(self, examples: Sequence[Example], progress: Advance | None = None) -> Mapping[str, Any]:
        """Forget what was learned before, learn from `examples`, and return what, of types that JSON has."""
        ...


def require_examples(examples: Sequence[Example], count: int, name: str) -> None:
    """Raise InputError if there are fewer than `count` examples."""
    if len(examples) < count:
        raise InputError(f"{name} learns from training examples: {len(examples)} given, {count} or more are needed")


def import_extra(module: str, feature: str, extra: str) -> Any:
    """Import a library that `feature` needs, or name the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(feature, extra) from error


def not_fitted(name: str) -> RejoinderError:
    """Return the error of a ranker that is asked for scores before `fit`."""
    return RejoinderError(f"{name} has not learned anything yet; call fit(examples) with training examples first")
