"""Words of two texts in the same order, by difflib, where that does not take too long.

difflib takes the cube of the lengths where two texts repeat the same words. Texts that people write
are far from that, and others are alike in nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

MOST_STEPS = 1_500_000  # some 0.1 s


def align(one: Sequence[str], other: Sequence[str]) -> SequenceMatcher[str] | None:
    """Return the alignment of two texts; None if it would take too long."""
    shorter = min(len(one), len(other))
    if len(one) * len(other) * shorter > MOST_STEPS:
        counts = Counter(other)
        pairs = sum(count * counts[word] for word, count in Counter(one).items())
        if pairs * shorter > MOST_STEPS:
            return None
    return SequenceMatcher(None, one, other, autojunk=False)
