"""Batches of training beside plain tokens: sides apart, vectors read before, anchored texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from rejoinder.networks.packing import TokenBatch


@dataclass(frozen=True, slots=True)
class SidesBatch:
    """Contexts and responses packed apart, for models with a network for each side."""

    contexts: TokenBatch
    responses: TokenBatch

    @property
    def real_tokens(self) -> int:
        """Tokens that are not padding."""
        return self.contexts.real_tokens + self.responses.real_tokens

    @property
    def computed_tokens(self) -> int:
        """All tokens, padding included."""
        return self.contexts.computed_tokens + self.responses.computed_tokens


@dataclass(frozen=True, slots=True)
class VectorBatch:
    """Texts that a trunk which learns nothing has read before: r of each (n, d)."""

    vectors: Tensor
    real_tokens: int

    @property
    def computed_tokens(self) -> int:
        """Tokens that are still read: none."""
        return 0


@dataclass(frozen=True, slots=True)
class BesideTokens:
    """Texts of which training needs more than their tokens."""

    tokens: TokenBatch

    @property
    def real_tokens(self) -> int:
        """Tokens that are not padding."""
        return self.tokens.real_tokens

    @property
    def computed_tokens(self) -> int:
        """All tokens, padding included."""
        return self.tokens.computed_tokens


@dataclass(frozen=True, slots=True)
class AnchoredBatch(BesideTokens):
    """Tokens of newest messages and responses, and `start` (n, d) of all texts.

    That is r before the trunk learns.
    """

    start: Tensor


TrunkBatch: TypeAlias = TokenBatch | VectorBatch | AnchoredBatch
"""Batches of a network whose sides share a trunk (`dual.SharedTrunk`)."""
