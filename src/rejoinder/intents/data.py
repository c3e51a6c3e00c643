"""Texts with their intents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rejoinder.arrays import IntArray
from rejoinder.checks import check_list
from rejoinder.conversations import TEXTS
from rejoinder.errors import InputError
from rejoinder.progress import counted
from rejoinder.text.background import background, multilingual_background

OUT_OF_SCOPE = "oos"  # label of texts that have none of the intents (CLINC150's name)
LISTED = 3  # intents that an error lists


@dataclass(frozen=True)
class IntentData:
    """Texts and their labels: one per text, or several if `multi_label`."""

    texts: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = field(default=(), compare=False)  # how an unclear file was read

    def __post_init__(self) -> None:
        """Raise InputError for a single text, and for labels that are not in tuples."""
        check_list(self.texts, TEXTS)
        check_list(self.labels, "give a list of labels")
        for names in self.labels:
            check_list(names, "give the labels of each text in a tuple, such as ('weather',)")

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def names(self) -> tuple[str, ...]:
        """The distinct labels, sorted."""
        return tuple(sorted({name for labels in self.labels for name in labels}))

    @property
    def classes(self) -> IntArray:
        """Position in `names` of each text's only label, (n,)."""
        places = {name: position for position, name in enumerate(self.names)}
        return np.array([places[name] for (name,) in self.labels], dtype=np.int64)

    def rows(self, chosen: IntArray | Sequence[int]) -> IntentData:
        """Return the texts at these positions."""
        return replace(
            self,
            texts=tuple(self.texts[i] for i in chosen),
            labels=tuple(self.labels[i] for i in chosen),
        )


@dataclass(frozen=True)
class TrainingTexts:
    """Texts in scope and out of scope, of the training and of the validation part."""

    train: IntentData
    valid: IntentData | None = None
    oos_texts: tuple[str, ...] = ()
    valid_oos_texts: tuple[str, ...] = ()
    is_background: bool = False  # everyday messages stand for those out of scope

    def __post_init__(self) -> None:
        """Raise InputError for a single text out of scope in place of a list."""
        check_list(self.oos_texts, TEXTS)
        check_list(self.valid_oos_texts, TEXTS)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return how unclear files were read."""
        return self.train.notes + (() if self.valid is None else self.valid.notes)

    @property
    def has_oos(self) -> bool:
        """Return whether texts are out of scope."""
        return bool(self.oos_texts or self.valid_oos_texts)

    def with_background(self, *, is_multilingual: bool = False) -> TrainingTexts:
        """Return the texts with messages that belong to no intent as those out of scope.

        Of an encoder that `is_multilingual` other languages are not a sign of such messages.
        """
        texts = multilingual_background() if is_multilingual else background()
        return replace(self, oos_texts=texts, is_background=True)


def check_shots(data: IntentData, shots: int) -> None:
    """Raise InputError if an intent has fewer than `shots` texts: a draw would take all of them."""
    counts = Counter(name for names in data.labels for name in names)
    few = [f"{name} ({count})" for name, count in sorted(counts.items()) if count < shots]
    if few:
        more = f" and {len(few) - LISTED} more" if len(few) > LISTED else ""
        raise InputError(
            f"{shots} texts of each intent cannot be drawn: {len(few)} of"
            f" {counted(len(counts), 'intent')} have fewer, {', '.join(few[:LISTED])}{more};"
            f" draw {min(counts.values())} or fewer, take all texts, or add some"
        )
