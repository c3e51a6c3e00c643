"""A trunk that learns nothing reads each text once: training then costs what its heads cost.

Where all stages give a trunk's parameters the rate 0 (`rates`), r of a text never changes. The
vectors of all distinct texts of a run are made before it begins, in float16, and batches hold them
instead of tokens. ACL19 and DATA19 train on the fixed vectors of other encoders in the same way
(their MAP).

A trunk that learns but is anchored (`init.anchor`) stays so near to where it began that the earlier
messages, most of what a conversation is, may be read by the trunk as it began: a pair costs its
newest message and its response.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rejoinder.errors import InputError
from rejoinder.networks.inference import pack_linears
from rejoinder.networks.packing import TRANSFORMER_SEGMENT_COST, VectorBatch, pack
from rejoinder.training.display import Display
from rejoinder.training.distillation import vectors_once
from rejoinder.training.distributed import Machine
from rejoinder.training.recipe import Recipe
from rejoinder.training.tokens import Ids, Joined, Rows, TokenStore, token_hashes

AT_ONCE = 256  # texts in one call of the trunk
HASHED_AT_ONCE = 1 << 16


def is_frozen(recipe: Recipe, module: Any) -> bool:
    """Return whether r of a text is the same all through a run, in training too."""
    groups = getattr(module, "trunk_groups", ())
    frozen = all(stage.rate(group) == 0 for stage in recipe.stage for group in groups)
    whole = all(stage.active_blocks == "all" for stage in recipe.stage)
    return bool(groups) and frozen and whole and module.config.dropout == 0


def is_anchored(recipe: Recipe, module: Any) -> bool:
    """Return whether a trunk that learns is held near to where it begins (`init.anchor`)."""
    if not recipe.init.anchor:
        return False
    if not hasattr(module, "trunk_groups"):
        kind = recipe.model["kind"]
        raise InputError(
            "init.anchor is for model.kind = 'multi-context-bi-encoder',"
            f" not '{kind}'; leave it out"
        )
    if is_frozen(recipe, module):
        raise InputError(
            "init.anchor holds a trunk that learns,"
            " but all stages' rates freeze this one; leave it out"
        )
    return True


@dataclass(frozen=True, slots=True)
class FrozenTexts:
    """r of all texts of some stores."""

    hashes: Rows  # of the distinct texts' tokens, ascending (t,)
    vectors: npt.NDArray[np.float16]  # (t, d)

    def __call__(self, ids: Ids, lengths: Ids) -> VectorBatch:
        """Return r of n texts that are among them."""
        places = np.searchsorted(self.hashes, token_hashes(ids, lengths))
        return VectorBatch(
            torch.from_numpy(self.vectors[places].astype(np.float32)), int(lengths.sum())
        )


def _texts(store: TokenStore, rows: Rows) -> Iterator[tuple[Any, Rows]]:
    """Yield columns of texts, and which of each some examples have."""
    yield store.input, rows
    yield store.response, rows
    if store.history is not None:
        yield store.history.texts, store.history.numbers(rows)
    if store.given is not None:
        yield store.given.texts, np.arange(len(store.given.texts))


def read_texts_once(
    path: Path,
    examples: Sequence[tuple[TokenStore, Rows]],
    module: Any,
    machine: Machine,
    display: Display,
) -> FrozenTexts:
    """Let a module's trunk read all texts of examples into a file.

    Go on where an earlier call stopped.
    """
    columns, numbers = zip(
        *(each for store, rows in examples for each in _texts(store, rows)), strict=True
    )
    starts = np.cumsum([0, *map(len, columns[:-1])])
    texts = Joined(columns)
    every = np.concatenate([rows + start for rows, start in zip(numbers, starts, strict=True)])
    pieces = np.split(every, range(HASHED_AT_ONCE, len(every), HASHED_AT_ONCE))
    found = np.concatenate(
        [token_hashes(ids, lengths) for ids, lengths in map(texts.gather, pieces)]
    )
    hashes, firsts = np.unique(found, return_index=True)

    module.eval()
    if machine.device.type == "cpu":  # nothing of it learns here: its fast form does
        module = pack_linears(
            copy.deepcopy(module), "bf16" if machine.precision == "bf16" else "fp32"
        )

    @torch.inference_mode()
    def read(chosen: slice) -> npt.NDArray[np.float32]:
        ids, lengths = texts.gather(every[firsts[chosen]])
        order = np.argsort(lengths, kind="stable")
        ends = np.cumsum(lengths, dtype=np.int64)
        found = np.empty((len(order), module.reduction_size), np.float32)
        for start in range(0, len(order), AT_ONCE):
            rows = order[start : start + AT_ONCE]
            pieces = np.concatenate([ids[ends[row] - lengths[row] : ends[row]] for row in rows])
            batch = pack(pieces, lengths[rows], module.padding_id, TRANSFORMER_SEGMENT_COST)
            with machine.autocast():
                found[rows] = module.reduce(batch.to(machine.device)).float().cpu().numpy()
        return found

    return FrozenTexts(hashes, vectors_once(path, len(hashes), read, "Reading the texts", display))
