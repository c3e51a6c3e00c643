"""A model that needs no training: unit vectors out of a text's hash."""

import hashlib

import numpy as np
import pytest

from rejoinder.encoders.protocol import DualEncoder


class HashEncoder(DualEncoder):
    """Equal texts have equal vectors, others nearly orthogonal ones; a context is its newest message."""

    name = fingerprint = ""
    subject_threshold = 0.0

    def __init__(self, seed="first", size=24, name="hash-model"):
        self.fingerprint = hashlib.sha256(seed.encode()).hexdigest()
        self.name = name
        self.size = size
        self.seed = seed
        self.calls = []

    def encode_contexts(self, contexts):
        return self.encode_responses([context[-1] for context in contexts])

    def encode_responses(self, responses):
        self.calls.append(len(responses))
        length = 2 * self.size
        raw = b"".join(hashlib.shake_128((self.seed + text).encode()).digest(length) for text in responses)
        rows = np.frombuffer(raw, dtype="<i2").reshape(-1, self.size).astype(np.float64)
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


class TableEncoder(HashEncoder):
    """Gives the rows of a table: the text "7" has the vector of row 7."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def encode_responses(self, responses):
        return self.table[[int(text) for text in responses]]


@pytest.fixture
def encoder():
    return HashEncoder()
