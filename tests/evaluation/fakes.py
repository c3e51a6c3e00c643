"""Examples and rankers whose right answers are known by construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.conversations import Context
from rejoinder.corpora.schema import Example


def numbered_examples(count: int, *, turns_per_thread: int = 0) -> list[Example]:
    """Message i is answered by reply i; consecutive ones share a thread if asked."""
    threads = [f"thread {i // turns_per_thread}" if turns_per_thread else "" for i in range(count)]
    return [
        Example((f"message {i}",), f"reply {i}", id=str(i), thread=threads[i]) for i in range(count)
    ]


def number(text: str) -> int:
    """The number at the end of "message 7" or "reply 7"."""
    return int(text.split()[-1])


class Rule:
    """A ranker that scores by a function of the newest message and a candidate, and remembers its calls."""

    def __init__(self, rule: Callable[[str, str], float]) -> None:
        self.rule = rule
        self.calls: list[tuple[list[Context], list[Sequence[str]]]] = []

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        self.calls.append((list(contexts), list(candidates)))
        pairs = zip(contexts, candidates, strict=True)
        return np.array(
            [[self.rule(context[-1], text) for text in texts] for context, texts in pairs],
            np.float32,
        )


def knows_it_all(message: str, candidate: str) -> float:
    return float(number(message) == number(candidate))


def knows_nothing(message: str, candidate: str) -> float:  # noqa: ARG001
    return 0.0


def knows_even_ones(message: str, candidate: str) -> float:
    """Right for even numbers; for odd ones every candidate scores above the right one."""
    same = number(message) == number(candidate)
    return float(same) if number(message) % 2 == 0 else -float(same)
