"""What a trainable dual encoder makes of a batch of pairs."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Part(NamedTuple):
    """One way in which the contexts are encoded.

    Attributes:
        name: what metrics call it.
        vectors: encoded contexts (K, d), float32.
        present: bool (K,), which contexts have this part; None: all.
    """

    name: str
    vectors: Tensor
    present: Tensor | None = None


class Encoded(NamedTuple):
    """K encoded pairs.

    Attributes:
        parts: the contexts, in each way in which they are to be ranked in training. The last one is the model's
            answer; a model that encodes contexts in one way has one.
        responses: encoded responses (K, d), float32, rows of unit length; row i belongs to context i.
    """

    parts: tuple[Part, ...]
    responses: Tensor

    @property
    def answer(self) -> tuple[Tensor, Tensor]:
        """Contexts and responses as they are ranked once the model is trained, (K, d) each."""
        return self.parts[-1].vectors, self.responses
