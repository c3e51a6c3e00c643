"""Examples as memory-mapped token ids.

A folder is named by a hash of all that its content depends on.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import Column, Ids, Joined, ranges
from rejoinder.digests import content_key
from rejoinder.errors import InputError
from rejoinder.json_parsing import parse_json
from rejoinder.networks.pair_batches import VectorBatch
from rejoinder.text.ngrams import mix

TokenRows: TypeAlias = npt.NDArray[np.int64]

FORMAT = 3
MANIFEST = "manifest.json"
INPUT = "input"
RESPONSE = "response"
HISTORY = "history"  # where wanted: all texts of histories; each example's slots, one a text
SLOTS = "slots"
CANDIDATES = "candidates"  # where wanted


@dataclass(frozen=True, slots=True)
class Histories:
    """A model's earlier messages of each example: any number of texts, each in a slot.

    See `HistoryText`.
    """

    texts: Column | Joined
    slots: Column | Joined  # of each example, one a text
    firsts: TokenRows  # each example's first text (n,)

    def gather(self, rows: TokenRows) -> tuple[Ids, Ids, TokenRows]:
        """Return ids and lengths of the examples' texts, and owner and slot of each, (2, m)."""
        slots, counts = self.slots.gather(rows)
        owners = np.repeat(np.arange(len(rows)), counts)
        return *self.texts.gather(ranges(self.firsts[rows], counts)), np.stack(
            [owners, slots.astype(np.int64)]
        )

    def counts(self, rows: TokenRows) -> Ids:
        """Return how many texts each of the given examples has (n,)."""
        return self.slots.gather(rows)[1]

    def numbers(self, rows: TokenRows) -> TokenRows:
        """Return which of the texts the given examples have."""
        return ranges(self.firsts[rows], self.counts(rows))

    def hashes(self, rows: TokenRows) -> TokenRows:
        """Return hashes that are equal for histories of equal texts."""
        ids, lengths, (owners, _) = self.gather(rows)
        return token_hashes(ids, np.bincount(owners, lengths, len(rows)).astype(np.int32))

    @staticmethod
    def join(parts: Sequence[Histories]) -> Histories:
        """Return those of several stores, numbered through."""
        starts = np.cumsum([0, *(len(part.texts) for part in parts[:-1])])
        firsts = np.concatenate(
            [part.firsts + start for part, start in zip(parts, starts, strict=True)]
        )
        return Histories(
            Joined([part.texts for part in parts]), Joined([part.slots for part in parts]), firsts
        )


@dataclass(frozen=True, slots=True)
class RawExamples:
    """Contexts and responses as JSON, example i in lines[offsets[i] : offsets[i + 1]]."""

    lines: npt.NDArray[np.uint8]
    offsets: TokenRows

    def read(self, rows: TokenRows) -> list[tuple[list[str], str]]:
        """Return context, oldest message first, and response of the given examples."""
        pieces = (
            bytes(self.lines[self.offsets[row] : self.offsets[row + 1]]) for row in rows.tolist()
        )
        return [(example["context"], example["response"]) for example in map(json.loads, pieces)]


@dataclass(frozen=True, slots=True)
class Given:
    """Wrong candidates that the data gives with its n examples, k each.

    Those of an example follow each other.
    """

    texts: Column  # n · k responses
    hashes: TokenRows  # equal for responses of equal tokens (n · k,)
    count: int  # k


@dataclass(frozen=True, slots=True)
class TokenStore:
    """Tokenised examples; what the model, a teacher or a stage does not read is None."""

    input: Column | Joined
    """Newest messages, or, for models that read contexts as one text, the whole contexts."""
    response: Column | Joined
    response_hash: TokenRows | Joined  # equal for responses of equal tokens (n,)
    history: Histories | None = None
    texts: RawExamples | None = None  # the examples before tokenising
    given: Given | None = None
    vectors: Callable[[Ids, Ids], VectorBatch] | None = None
    """Of texts, where the trunk learns nothing (`initialisation`)."""
    start: Callable[[Ids, Ids], VectorBatch] | None = None
    """Those before it learns, where it is anchored there."""
    key: str = ""
    """Name of its folder, which differs where anything differs that the store was made of."""

    def __len__(self) -> int:
        return len(self.response_hash)


def join_stores(stores: Sequence[TokenStore]) -> TokenStore:
    """Return several stores, made for one model, as one; their examples are numbered through."""
    if len(stores) == 1:
        return stores[0]
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(TokenStore)[:-1]:
        parts = [getattr(store, field.name) for store in stores]
        join = Histories.join if field.name == "history" else Joined
        columns[field.name] = None if parts[0] is None else join(parts)
    return TokenStore(**columns, key=content_key(*(store.key for store in stores)))


def open_store(path: Path) -> TokenStore:
    """Map a store into memory."""
    try:
        manifest = parse_json((path / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            raise ValueError("another format")
        n = manifest["examples"]
        k = manifest.get("given", 0)
        tokens = manifest["tokens"]
        sizes = dict.fromkeys(tokens, n) | {CANDIDATES: n * k, HISTORY: tokens.get(SLOTS, 0)}
        columns = {
            side: Column(
                _map(path, f"{side}.ids", "<i4", tokens[side]),
                _map(path, f"{side}.offsets", "<i8", size + 1),
            )
            for side, size in sizes.items()
            if side in tokens
        }
        histories = None
        if SLOTS in columns:
            histories = Histories(columns[HISTORY], columns[SLOTS], columns[SLOTS].offsets[:-1])
        texts = candidates = None
        if "text_bytes" in manifest:
            lines = _map(path, "texts.jsonl", "u1", manifest["text_bytes"])
            texts = RawExamples(lines, _map(path, "texts.offsets", "<i8", n + 1))
        if CANDIDATES in columns:
            candidates = Given(columns[CANDIDATES], _map(path, "candidates.hash", "<i8", n * k), k)
        hashes = _map(path, "response.hash", "<i8", n)
        return TokenStore(
            columns[INPUT],
            columns[RESPONSE],
            hashes,
            histories,
            texts,
            candidates,
            key=path.name,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: not a whole token store ({error}); delete it and run again"
        ) from None


def _map(folder: Path, name: str, kind: str, count: int) -> npt.NDArray[Any]:
    path = folder / name
    dtype = np.dtype(kind)
    if path.stat().st_size != count * dtype.itemsize:
        raise ValueError(
            f"{name} has {path.stat().st_size} bytes instead of {count * dtype.itemsize}"
        )
    return np.memmap(path, dtype, mode="r", shape=(count,)) if count else np.empty(0, dtype)


def token_hashes(ids: Ids, lengths: Ids) -> TokenRows:
    """Return a 64-bit hash of each text's tokens.

    It is the sum of a pseudo-random number for each (place, token).
    """
    places = ranges(0, lengths)
    mixed = mix(ids.astype(np.uint64) << np.uint64(32) | places.astype(np.uint64))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    ends = np.cumsum(lengths, dtype=np.int64)
    return (sums[ends] - sums[ends - lengths]).view(np.int64)
