"""Texts in the usual padded form, ids (n, L) with a mask: what other programs feed a network with.

Our own encoding packs tokens without padding (see `packing`); the forms that a model is exported to take rectangles.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rejoinder.models.convert import Convert
from rejoinder.models.multi_context import MultiContextConvert
from rejoinder.models.packing import Segment, TokenBatch
from rejoinder.text.tokenizer import Tokenizer


def pad(
    tokenizer: Tokenizer, texts: Sequence[str], max_length: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Token ids of texts as a rectangle.

    Args:
        tokenizer: the model's.
        texts: n texts.
        max_length: longest text in tokens; the rest is cut off.

    Returns:
        Ids, int64 (n, L), and a mask, bool (n, L), True where a token is; L is at least 1. The row of a text without
        tokens is all False.
    """
    ids, lengths = tokenizer.encode_ragged(texts, max_length)
    mask = np.arange(max(1, int(lengths.max(initial=0)))) < lengths[:, None]
    padded = np.full(mask.shape, tokenizer.padding_id, dtype=np.int64)
    padded[mask] = ids
    return padded, mask


def encode_padded(module: Convert, ids: Tensor, mask: Tensor, side: str) -> Tensor:
    """Vectors of n texts, float32 (n, d_out): h of the input alone ("context"), "history" or "response".

    A text without tokens counts as one padding token, as in `packing.pack`: it gets a vector like any other.

    Args:
        module: the network.
        ids: token ids, int64 (n, L), L at least 1; padding id where the mask is False.
        mask: bool (n, L), True where a token is.
        side: the side's name.
    """
    count, length = ids.shape
    place = torch.arange(length, device=ids.device)
    real = mask | ((place == 0) & ~mask.any(dim=1, keepdim=True))
    # Not `packing.rectangle`, which counts the real tokens: a number that a recording of this function cannot have.
    batch = TokenBatch(
        ids=ids.reshape(-1),
        positions=place.repeat(count),
        segments=(Segment(0, count, length, real),),
        restore=torch.arange(count, device=ids.device),
        real_tokens=count * length,
    )
    return module.encode(batch, side)


def encode_conversations(
    module: MultiContextConvert, ids: Tensor, mask: Tensor, history_ids: Tensor, history_mask: Tensor
) -> Tensor:
    """Combined encodings of n inputs and their histories, float32 (n, d_out).

    Args:
        module: a multi-context network.
        ids: of the inputs, int64 (n, L).
        mask: bool (n, L).
        history_ids: of the joined histories, int64 (n, M).
        history_mask: bool (n, M); a row that is all False is a conversation without history.
    """
    there = history_mask.any(dim=1, keepdim=True)
    z = encode_padded(module, history_ids, history_mask, "history") * there
    return module.combine(encode_padded(module, ids, mask, "context"), z)
