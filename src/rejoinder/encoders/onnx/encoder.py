"""The encoder of an ONNX folder, with numpy and onnxruntime alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray, by_like_length, take
from rejoinder.encoders import bundled
from rejoinder.encoders.conversation import Side, TextEncoder
from rejoinder.encoders.onnx.folder import (
    COMBINED,
    INTENTS,
    MANIFEST,
    POOLED,
    TRUNK,
    TRUNK_INT8,
    VOCABULARY,
    locate,
    read_manifest,
)
from rejoinder.encoders.onnx.program import open_program
from rejoinder.errors import InputError
from rejoinder.progress import Advance
from rejoinder.text.history import HistoryText
from rejoinder.text.pretrained import MarkedPretrained
from rejoinder.text.subwords import Subwords
from rejoinder.text.tokenizer import Ids, Tokenizer

if TYPE_CHECKING:
    from rejoinder.encoders.joined import JoinedEncoder

PRECISIONS = ("auto", "fp32", "int8")
# tokens computed at once: texts of about one length, so that little of it is padding
CHUNK_TOKENS = 1024


def open_folder(
    name: str | Path,
    threads: int | None = None,
    precision: str = "auto",
    manifest: dict[str, Any] | None = None,
) -> OnnxEncoder | JoinedEncoder:
    """Open an ONNX folder, or a named model that has one, as an encoder.

    `manifest` is what `read_manifest` returned, if the files were compared with it just now.

    Raises:
        InputError: as `OnnxEncoder`.
    """
    folder = locate(name)
    manifest = manifest or read_manifest(folder)
    if "share" not in manifest:
        return OnnxEncoder(name, threads, precision, manifest=manifest)
    from rejoinder.encoders.joined import JoinedEncoder

    first, second = (folder / part for part in bundled.PARTS)
    # A part without a program in 8 bits has layers too small to gain by them.
    second_precision = "auto" if precision == "int8" else precision
    return JoinedEncoder(
        OnnxEncoder(first, threads, precision),
        OnnxEncoder(second, threads, second_precision),
        manifest["share"],
        manifest["opening_share"],
        name=str(name),
        fingerprint=manifest["model"],
        reopen=functools.partial(open_folder, name, threads, precision),
    )


class OnnxEncoder(TextEncoder):
    """Encodes and scores as `rejoinder.load` does, without PyTorch.

    Args:
        folder: what `rejoinder export MODEL --to onnx` or `rejoinder intents export` wrote, or
            "bi-small".
        threads: processor threads to use; None: `OMP_NUM_THREADS`, or onnxruntime's own choice.
        precision: "fp32"; "int8", in half to two thirds of the time, where the folder has such a
            program; "auto": that where there is one.
        manifest: what `read_manifest` returned, if the files were compared with it just now.

    Raises:
        InputError: the folder is incomplete or altered, or of another version, or has no program of
            that precision, or onnxruntime is not there.
    """

    def __init__(
        self,
        folder: str | Path,
        threads: int | None = None,
        precision: str = "auto",
        *,
        manifest: dict[str, Any] | None = None,
    ) -> None:
        self.folder = locate(folder)
        self.threads = threads
        self.name = str(folder)
        self.manifest = manifest = manifest or read_manifest(self.folder)
        if "share" in manifest:
            raise InputError(
                f"{folder} is a joined model; open it with rejoinder.load, or one of its parts,"
                f" {' and '.join(f'{folder}/{part}' for part in bundled.PARTS)}"
            )
        # the model's own: vectors of both can be compared
        self.fingerprint: str = manifest["model"]
        self.max_length = manifest["max_length"]
        self.subject_threshold = manifest.get("subject_threshold", 0.0)
        self.opening_weight = manifest.get("opening_weight", 0.0)
        self.tokenizer = _tokenizer(manifest.get("tokenizer", "subwords"), self.folder / VOCABULARY)
        self._trunk = _choose_trunk(precision, manifest["files"], folder)
        self._wanted = precision
        names = [name for name in manifest["files"] if name.endswith(".onnx") and name != INTENTS]
        # Opened when first computed: a message needs two or three of up to seven programs.
        self._names = frozenset(names)
        self._programs: dict[str, Callable[..., list[Any]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return OnnxEncoder, (self.name, self.threads, self._wanted), {"_part": self._part}

    def facts(self) -> Mapping[str, object]:
        """Return what the encoder is shown by."""
        facts = {
            "folder": self.name,
            "kind": "onnx",
            "precision": self.precision,
            "size": self.size,
            "max_length": self.max_length,
        }
        return facts | ({} if self.history is None else {"history": self.history.messages})

    @property
    def precision(self) -> str:
        """The precision of the trunk: "fp32" or "int8"."""
        return "int8" if self._trunk == TRUNK_INT8 else "fp32"

    @property
    def history(self) -> HistoryText | None:
        """Reading of earlier messages; None: the newest one alone."""
        fields = self.manifest["history"]
        return None if fields is None else HistoryText(**fields)

    @property
    def size(self) -> int:
        """Size d of the vectors."""
        size: int = self.manifest["size"]
        return size

    @property
    def reduction_size(self) -> int:
        """Size of r, which `transfer` returns."""
        size: int = self.manifest["reduction_size"]
        return size

    def _encode_blocks(
        self,
        blocks: Iterator[tuple[Ids, Ids]],
        count: int,
        side: Side,
        advance: Advance | None,
    ) -> FloatArray:
        """Encode texts by their ids, those of like lengths in a block together: (n, d)."""
        size = self.reduction_size if side == "reduction" else self.size
        vectors = np.zeros((count, size), np.float32)
        first = 0
        for ids, lengths in blocks:
            part = slice(first, first + len(lengths))
            self._encode_block(ids, lengths, side, vectors[part], advance)
            first = part.stop
        return vectors

    def _encode_block(
        self, ids: Ids, lengths: Ids, side: Side, vectors: FloatArray, advance: Advance | None
    ) -> None:
        """Write the vectors of a block's texts into `vectors` (n, d)."""
        for rows in by_like_length(lengths, CHUNK_TOKENS):
            chosen, counts = take(ids, lengths, rows)
            # (n, L), True where a token is
            mask = np.arange(max(1, counts.max())) < counts[:, None]
            padded = np.full(mask.shape, self.tokenizer.padding_id, dtype=np.int64)
            padded[mask] = chosen
            output = self._run(
                self._trunk, len(rows), self.manifest["reduction_size"], ids=padded, mask=mask
            )
            vectors[rows] = output if side == "reduction" else self._head(output, side)
            if advance is not None:
                advance(len(rows))

    def _head(self, r: FloatArray, side: Side) -> FloatArray:
        return self._run(f"{side}.onnx", len(r), self.size, reduction=r)

    def _pool_history(
        self, x: FloatArray, texts: FloatArray, histories: npt.NDArray[np.int64]
    ) -> FloatArray:
        if self.history is None or not self.history.apart:
            return super()._pool_history(x, texts, histories)
        if not len(texts):
            return np.zeros_like(x)
        return self._run(POOLED, len(x), self.size, context=x, messages=texts, histories=histories)

    def _combine(self, x: FloatArray, z: FloatArray) -> FloatArray:
        return self._run(COMBINED, len(x), self.size, context=x, history=z)

    def _run(self, name: str, rows: int, size: int, **inputs: Any) -> FloatArray:
        """Compute a file; one that is not there, or gives something else, is an InputError."""
        path = self.folder / name
        if name not in self._names:
            raise InputError(f"{path} is not in {MANIFEST}; export the model again")
        if name not in self._programs:
            self._programs[name] = open_program(path, self.threads)
        outputs = self._programs[name](**inputs)
        if len(outputs) != 1 or np.shape(outputs[0]) != (rows, size):
            shapes = ", ".join(str(np.shape(output)) for output in outputs)
            raise InputError(
                f"{path} gives {shapes} where {(rows, size)} is needed; copy the folder again"
            )
        return np.asarray(outputs[0], dtype=np.float32)


def _tokenizer(kind: str, vocabulary: Path) -> Tokenizer:
    """Read a vocabulary of a kind, as recipes name it."""
    if kind == "subwords":
        return Subwords.load(vocabulary)
    return MarkedPretrained.load(vocabulary)


def _choose_trunk(precision: str, files: Iterable[str], folder: str | Path) -> str:
    """Return the program of a precision, of those that a folder has."""
    if precision not in PRECISIONS:
        raise InputError(
            f"precision {precision!r} is unknown to ONNX programs; allowed are"
            f" {', '.join(PRECISIONS)}"
        )
    if precision != "fp32" and TRUNK_INT8 in files:
        return TRUNK_INT8
    if precision == "int8":
        raise InputError(
            f"{folder} has no program in 8 bits; take 'auto', or export the model again:"
            " multi-context bi-encoders have one"
        )
    return TRUNK
