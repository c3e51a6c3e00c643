"""Vectors of the messages that belong to no reply: encoded once for each model, not for each index.

Those of bundled models come with them, in 8 bits. Others are in the user's cache
(`rejoinder.cache`), by the fingerprint of the model and the digest of the messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.cache import cached_vectors
from rejoinder.encoders.bundled import FOLDER
from rejoinder.encoders.multilingual import is_multilingual
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.retrieval.encoding.views import encode_conversations
from rejoinder.text.background import background, multilingual_background

LEVELS = 127  # of 8 bits, on each side of 0


def encode_background(encoder: DualEncoder) -> FloatArray:
    """Return the vectors (n, d) of the messages as conversations."""
    return _once("contexts", encoder)


def mean_background(encoder: DualEncoder) -> FloatArray:
    """Return the mean (d,) of the unit vectors of the messages as responses."""
    return _once("mean", encoder)[0]


def texts_for(encoder: DualEncoder) -> tuple[str, ...]:
    """Return the messages in the languages that a model reads."""
    return multilingual_background() if is_multilingual(encoder) else background()


def _encode_contexts(encoder: DualEncoder) -> FloatArray:
    return encode_conversations(encoder, [[text] for text in texts_for(encoder)])


def _mean_response(encoder: DualEncoder) -> FloatArray:
    vectors = unit_rows(np.asarray(encoder.encode_responses(list(texts_for(encoder))), np.float32))
    return vectors.mean(axis=0, keepdims=True)


COMPUTED: Mapping[str, Callable[[DualEncoder], FloatArray]] = {
    "contexts": _encode_contexts,
    "mean": _mean_response,
}
"""What is kept of the messages, by name."""


def _once(kind: str, encoder: DualEncoder) -> FloatArray:
    fingerprint = getattr(encoder, "fingerprint", "")
    if not fingerprint:
        return COMPUTED[kind](encoder)
    name = file_name(kind, fingerprint, texts_for(encoder))
    bundled = FOLDER / f"{name}.npz"
    if bundled.is_file():
        return read_bundled(bundled)
    return cached_vectors(name, lambda: COMPUTED[kind](encoder))


def write_bundled(path: Path, vectors: FloatArray) -> None:
    """Write vectors (n, d) in 8 bits, with a scale of each."""
    scales = np.abs(vectors).max(axis=1, keepdims=True) / LEVELS
    rows = np.round(vectors / np.where(scales > 0, scales, 1)).astype(np.int8)
    np.savez(path, rows=rows, scales=scales)


def read_bundled(path: Path) -> FloatArray:
    """Read vectors that `write_bundled` has written."""
    with np.load(path, allow_pickle=False) as stored:
        vectors: FloatArray = stored["rows"] * stored["scales"]
    return vectors


def file_name(kind: str, fingerprint: str, texts: Sequence[str]) -> str:
    """Return the name under which something of a model and texts is kept, without its ending."""
    lines = "\n".join(texts)
    digest = hashlib.sha256(f"{fingerprint}\n{lines}".encode()).hexdigest()
    return f"background-{kind}-{digest[:32]}"
