"""Multi-context ConveRT (CONVERT, section 3): earlier messages beside the newest one.

The trunk is that of the single-context model, for all three kinds of text. A feed-forward network 2 of its own turns
r of the joined history into h_z. What ranks responses is the combined encoding: the mean of h_x and h_z, through one
more such network. In training all three, h_x, h_z and the combined one, are ranked against the responses.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rejoinder.models.convert import Convert, ConvertConfig, Encodings, FeedForward2
from rejoinder.models.packing import TokenBatch


class MultiContextConvert(Convert):
    """The dual encoder whose contexts are an input and its history.

    Args:
        config: its structure, with `history` above 0.
        rows: rows of the subword table; the last one is the padding's.
    """

    def __init__(self, config: ConvertConfig, rows: int) -> None:
        super().__init__(config, rows)
        self.history = config.history_text
        size = config.output_size
        original = config.feed_forward_2 == "original" and config.skip_connections
        self.history_head = FeedForward2(config, self.shared_skip)
        # What the sides share takes an r, not an h: the combining network has a projection of its own.
        self.combined_head = FeedForward2(config, nn.Linear(size, size) if original else None, in_size=size)
        if config.aligned_start:
            self.history_head.start_as_mean(config.reduction_heads)
        if config.zero_residual:
            self.combined_head.start_as_identity()

    def encode_pairs(self, batch: TokenBatch, pairs: int, histories: Tensor) -> Encodings:
        """h_x as "input", h_z as "history", the combined encoding as "context", h_y as "response".

        Args:
            batch: K inputs, then the histories of those pairs that have one, then the responses: those of the K
                pairs, then any further ones.
            pairs: K.
            histories: the pairs that have a history, int64 (H,); h_z of the others is zero.
        """
        r = self.reduce(batch)
        inputs, earlier, responses = r[:pairs], r[pairs : pairs + len(histories)], r[pairs + len(histories) :]
        x = self.context_head(inputs)
        z = torch.zeros_like(x).index_copy(0, histories, self.history_head(earlier))
        return {"input": x, "history": z, "context": self.combine(x, z), "response": self.response_head(responses)}

    def combine(self, x: Tensor, z: Tensor) -> Tensor:
        """h_x and h_z (n, d_out), h_z zero where there is no history -> the combined encoding (n, d_out)."""
        weights = next(self.combined_head.norms.parameters())  # linear layers may be packed and have none to look at
        return self.combined_head(((x + z) / 2).to(weights.dtype))

    def heads(self) -> dict[str, FeedForward2]:
        """The network of each side, by the side's name."""
        return super().heads() | {"history": self.history_head}

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """All parameters, each once, by the part they belong to: recipes give each part a rate of its own."""
        groups = super().parameter_groups()
        more = [*groups["feed_forward_2"], *self.history_head.parameters(), *self.combined_head.parameters()]
        return groups | {"feed_forward_2": list(dict.fromkeys(more))}
