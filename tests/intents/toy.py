"""Small texts with intents, and an encoder that needs no training: words hashed to numbers."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.intents.data import IntentData

TOPICS = {
    "card_lost": "lost card stolen missing wallet gone",
    "exchange_rate": "exchange rate currency euro dollar convert",
    "top_up": "top up balance add money transfer",
    "weather": "weather rain sunny forecast cold umbrella",
}
FILLERS = ["please", "can", "you", "tell", "me", "my", "the", "a", "what", "is", "i"]


class WordVectors:
    """Each word has a fixed random vector; a text has the sum of its words'."""

    def __init__(self, size: int = 32, name: str = "words") -> None:
        self.name, self.size = name, size
        self.fingerprint = f"words-{size}"
        self.encoded = 0

    def encode(
        self, texts: Sequence[str], advance: Callable[[int], None] | None = None
    ) -> FloatArray:
        rows = np.zeros((len(texts), self.size), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                row += np.random.default_rng(zlib.crc32(word.encode())).standard_normal(self.size)
        self.encoded += len(texts)
        if advance is not None:
            advance(len(texts))
        return rows


def toy_data(each: int = 12, seed: int = 0, topics: Sequence[str] = tuple(TOPICS)) -> IntentData:
    """That many texts of each topic: two of its words among others."""
    generator = random.Random(seed)
    texts, labels = [], []
    for topic in topics:
        for _ in range(each):
            words = [*generator.sample(TOPICS[topic].split(), 2), *generator.sample(FILLERS, 3)]
            generator.shuffle(words)
            texts.append(" ".join(words))
            labels.append((topic,))
    return IntentData(tuple(texts), tuple(labels))


def outside_texts(count: int = 16, seed: int = 0) -> tuple[str, ...]:
    """Texts with none of the topics, among the same other words."""
    generator = random.Random(f"outside {seed}")
    others = [
        "jazz",
        "loud",
        "song",
        "football",
        "match",
        "goal",
        "recipe",
        "soup",
        "bread",
        "joke",
        "cats",
        "bake",
    ]
    return tuple(
        " ".join([*generator.sample(others, 2), *generator.sample(FILLERS, 3)])
        for _ in range(count)
    )


def multi_label_data(count: int = 120, seed: int = 0) -> IntentData:
    """Texts with none, one or two topics."""
    generator = random.Random(seed)
    texts, labels = [], []
    for _ in range(count):
        topics = generator.sample(sorted(TOPICS), generator.choice([0, 1, 1, 2]))
        words = [word for topic in topics for word in generator.sample(TOPICS[topic].split(), 3)]
        texts.append(" ".join([*words, *generator.sample(FILLERS, 3)]))
        labels.append(tuple(topics))
    return IntentData(tuple(texts), tuple(labels))
