"""Training texts whose labels look wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rejoinder.intents.data import IntentData
from rejoinder.intents.heads import Encoded
from rejoinder.intents.prediction import probabilities
from rejoinder.intents.refusal import HeldOut
from rejoinder.intents.sampling import text_groups

MAX_SUSPECTS = 20


@dataclass(frozen=True)
class SuspectLabel:
    """A training text whose label looks wrong."""

    text: str
    label: str
    suggested: str  # by the classifier that was trained without the text
    margin: float  # probability of the label minus that of the suggested one, -1 to 0


def suspect_labels(data: IntentData, encoded: Encoded, scored: HeldOut) -> tuple[SuspectLabel, ...]:
    """Return texts with suspect labels, the most suspect first; copies with one label count once.

    Classifiers trained without them are confident of another intent.
    """
    # By the cross-validated margin (Northcutt et al. 2021, "Confident Learning", who normalise it).
    chances = probabilities(scored.logits, encoded.multi_label)
    rows = np.arange(len(encoded))
    classes = encoded.classes
    names = data.names
    own = chances[rows, classes].copy()
    chances[rows, classes] = -1.0
    others = chances.argmax(axis=1)
    margin = own - chances[rows, others]
    labelled = np.stack([text_groups(data.texts), classes])
    first = np.unique(labelled, axis=1, return_index=True)[1]
    first.sort()
    order = first[np.argsort(margin[first], kind="stable")]
    worst = [i for i in order[:MAX_SUSPECTS] if margin[i] < 0]
    return tuple(
        SuspectLabel(data.texts[i], names[classes[i]], names[others[i]], float(margin[i]))
        for i in worst
    )
