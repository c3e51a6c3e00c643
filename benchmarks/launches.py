"""Count the operators of one training step on a card, beside a plain PyTorch encoder of that shape.

    python benchmarks/launches.py

A card's small kernels end sooner than the next one can be launched, so a step of short texts costs
what its launches cost. The step runs on the CPU, in the layout that a card gets (one rectangle,
`networks.packing`). What only views memory is not counted, attention counts as the one call that it
is on a card, forward and backward, and clipping, a few calls there for all parameters together, is
left out. The peer is `nn.TransformerEncoder` on
padded texts, with the same sizes, loss and optimiser. Batches have random lengths; a step must have
the same operators in each.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from common import write_result
from rejoinder.encoders.families import build_module, parse_config
from rejoinder.networks.layers import Encodings
from rejoinder.networks.packing import TokenBatch, pack
from rejoinder.networks.pair_batches import SidesBatch
from rejoinder.networks.quantization import training
from rejoinder.networks.quantization.training import QuantizedTraining
from rejoinder.training.recipe.losses import InBatchLoss, SummedLoss
from rejoinder.training.recipe.optimization import build_optimizer, prepare_stage
from rejoinder.training.recipe.stages import Adam, Stage

PAIRS = 8
NEGATIVES = 3  # of a cross-encoder
ROWS = 300  # of the token tables
LONGEST = 48
BATCHES = 5
SHAPE = {
    "hidden_size": 32,
    "blocks": 6,
    "heads": 2,
    "feed_forward_size": 64,
    "positions": 64,
    "dropout": 0.0,
}
CONVERT = {
    "embedding_size": 32,
    "head_size": 16,
    "feed_forward_size": 64,
    "feed_forward_2_size": 64,
    "output_size": 32,
    "dropout": 0.0,
}
MODELS: Mapping[str, Mapping[str, Any]] = {
    "bi-encoder": {**SHAPE, "kind": "bi-encoder", "reduction": "mean", "context_length": 64},
    "cross-encoder": {**SHAPE, "kind": "cross-encoder", "context_length": 64},
    "multi-context-bi-encoder": {**SHAPE, "kind": "multi-context-bi-encoder"},
    "convert": {**CONVERT, "kind": "convert"},
    "convert, quantised": {**CONVERT, "kind": "convert"},
    "convert, multi-context": {**CONVERT, "kind": "convert", "history": 10},
}
STAGE = Stage(
    name="counted",
    batch_size=PAIRS,
    steps=BATCHES,
    optimizer=Adam(kind="adamw"),
    learning_rate=1e-4,
)


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operators that compute something, forward and backward."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = func.overloadpacket._qualified_op_name
        if not func.is_view and name not in VIEWS and not name.startswith("profiler::"):
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


VIEWS = {"aten::_unsafe_view", "aten::empty", "aten::empty_like", "aten::new_empty"}
"""What allocates or views memory, and is marked as no view."""


class OneAttention(torch.autograd.Function):
    """Attention as one operator each way, which on a CPU it is not for every kind of mask."""

    @staticmethod
    def forward(ctx: Any, operators: Operators, *given: Tensor | None) -> Tensor:
        """Attend as PyTorch does, and count one operator."""
        ctx.operators = operators
        ctx.save_for_backward(*given)
        operators.counts["attention"] += 1
        with _disable_current_modes():
            q, k, v, mask = given
            assert q is not None
            assert k is not None
            assert v is not None
            return ATTENTION(q, k, v, mask)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Do the same backward."""
        ctx.operators.counts["attention, backward"] += 1
        with _disable_current_modes(), torch.enable_grad():
            given = [
                None if each is None else each.detach().requires_grad_(needed)
                for each, needed in zip(ctx.saved_tensors, ctx.needs_input_grad[1:], strict=True)
            ]
            wanted = [each for each in given if each is not None and each.requires_grad]
            gradients = iter(torch.autograd.grad(ATTENTION(*given), wanted, gradient))  # type: ignore[arg-type]
        return None, *(next(gradients) if needed else None for needed in ctx.needs_input_grad[1:])


ATTENTION = F.scaled_dot_product_attention


class PlainEncoder(nn.Module):
    """PyTorch's transformer on padded texts, the mean of their tokens, and heads of its sides."""

    def __init__(
        self, blocks: int, heads: int, size: int, feed_forward: int, sides: int = 0, layers: int = 0
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(ROWS, size)
        self.positions = nn.Embedding(64, size)
        self.norm = nn.LayerNorm(size)
        layer = nn.TransformerEncoderLayer(
            size, heads, feed_forward, 0.0, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, blocks, enable_nested_tensor=False)
        self.score = nn.Linear(size, 1)  # of a cross-encoder
        self.heads = nn.ModuleList(_head(size, layers) for _ in range(sides))

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """ids and bool `real` (n, L) -> (n, d)."""
        place = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.tokens(ids) + self.positions(place))
        x = self.encoder(x, src_key_padding_mask=~real)
        share = real.to(x.dtype)[:, :, None]
        return (x * share).sum(dim=1) / share.sum(dim=1)


def _head(size: int, layers: int) -> nn.Sequential:
    """Return a feed-forward network of a side, as many layers deep as the model's own."""
    modules: list[nn.Module] = []
    for _ in range(layers):
        modules += [nn.Linear(size, size), nn.GELU(), nn.LayerNorm(size)]
    return nn.Sequential(*modules, nn.Linear(size, size))


def random_texts(count: int, generator: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """Return texts of random lengths, as ids."""
    lengths = generator.integers(1, LONGEST, count)
    return [generator.integers(5, ROWS - 5, length).astype(np.int32) for length in lengths]


def one_rectangle(texts: list[np.ndarray[Any, Any]]) -> TokenBatch:
    """Pack texts as a card wants them."""
    lengths = np.array(list(map(len, texts)), np.int32)
    return pack(np.concatenate(texts), lengths, 0, segment_cost=None)


def padded(texts: list[np.ndarray[Any, Any]]) -> tuple[Tensor, Tensor]:
    """Pad texts as a plain encoder wants them."""
    ids = torch.zeros(len(texts), LONGEST, dtype=torch.int64)
    real = torch.zeros(len(texts), LONGEST, dtype=torch.bool)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.from_numpy(text)
        real[row, : len(text)] = True
    return ids, real


def count_texts(name: str) -> int:
    """Return how many texts one encoder reads in a step."""
    if name == "cross-encoder":
        return PAIRS * (1 + NEGATIVES)
    return (3 if "multi-context" in name else 2) * PAIRS


def counted(step: Callable[[Any], None], batch: Any) -> Counter[str]:
    """Return the operators of a step."""
    operators = Operators()

    def attention(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
    ) -> Tensor:
        assert not dropout_p
        assert not is_causal
        attended: Tensor = OneAttention.apply(operators, q, k, v, attn_mask)  # type: ignore[no-untyped-call]
        return attended

    with (
        patch.object(F, "scaled_dot_product_attention", attention),
        patch.object(training, "_round_all", training.round_together),
        operators,
    ):
        step(batch)
    return operators.counts


def our_step(name: str) -> tuple[Callable[[Any], None], Callable[[np.random.Generator], Any]]:
    """Return one optimisation step of a model, as the training loop does it, and its batches."""
    torch.manual_seed(0)
    config = parse_config(dict(MODELS[name]))
    module = build_module(config, ROWS)
    quantized = QuantizedTraining(module, "bfloat16") if name.endswith("quantised") else None
    prepare_stage(module, STAGE)
    optimizer = build_optimizer(module, STAGE)
    loss = SummedLoss(InBatchLoss(0.0))
    reads_history = "multi-context" in name
    owners = torch.arange(PAIRS)
    histories = torch.stack([owners, torch.zeros_like(owners)])

    def make(generator: np.random.Generator) -> Any:
        if name == "bi-encoder":
            sides = [one_rectangle(random_texts(PAIRS, generator)) for _ in range(2)]
            return SidesBatch(sides[0], sides[1])
        return one_rectangle(random_texts(count_texts(name), generator))

    def encode(batch: Any) -> Encodings:
        found: Encodings = module.encode_pairs(batch, PAIRS, histories if reads_history else None)
        return found

    def step(batch: Any) -> None:
        module.train()
        optimizer.zero_grad(set_to_none=True)
        if quantized is None:
            encodings = encode(batch)
        else:
            with quantized.rounded():
                encodings = encode(batch)
        loss(encodings, scale=20.0, pairs=PAIRS).value.backward()
        optimizer.step()

    return step, make


def plain_encoders(name: str) -> list[PlainEncoder]:
    """Return encoders of a model's shape, one for each network of its sides."""
    size = int(SHAPE["hidden_size"])
    blocks = int(SHAPE["blocks"])
    heads = int(SHAPE["heads"])
    sides = 4 if "multi-context" in name else 2
    if name.startswith("convert"):
        return [PlainEncoder(blocks, 1, size, 64, sides, layers=3)]
    if name.startswith("multi-context"):
        return [PlainEncoder(blocks, heads, size, 64, sides, layers=1)]
    count = 2 if name == "bi-encoder" else 1
    return [PlainEncoder(blocks, heads, size, 64) for _ in range(count)]


def plain_step(name: str) -> tuple[Callable[[Any], None], Callable[[np.random.Generator], Any]]:
    """Return the same of PyTorch's own encoder, with heads as deep and as many losses."""
    torch.manual_seed(0)
    history = "multi-context" in name
    encoders = plain_encoders(name)
    encoder = encoders[0]
    everything = nn.ModuleList(encoders)
    optimizer = torch.optim.AdamW(everything.parameters(), lr=1e-4, fused=True)

    def make(generator: np.random.Generator) -> Any:
        if name == "bi-encoder":
            return [padded(random_texts(PAIRS, generator)) for _ in range(2)]
        return [padded(random_texts(count_texts(name), generator))]

    def encode(batch: Any) -> list[Tensor]:
        """Return contexts, those of the history and of both where it is read, and responses."""
        found = [each(ids, real) for each, (ids, real) in zip(encoders, batch, strict=True)]
        if len(found) == 1:
            found = list(found[0].split(PAIRS))
        if not len(encoder.heads):
            return [F.normalize(each, dim=-1) for each in found]
        found = [head(each) for head, each in zip(encoder.heads, found, strict=False)]
        if history:
            both = encoder.heads[3]((found[0] + found[1]) / 2)
            found.insert(2, both)
        return [F.normalize(each, dim=-1) for each in found]

    def step(batch: Any) -> None:
        everything.train()
        optimizer.zero_grad(set_to_none=True)
        if name == "cross-encoder":
            scores = encoder.score(encoder(*batch[0])).view(PAIRS, -1)
            loss = F.cross_entropy(scores, torch.zeros(PAIRS, dtype=torch.int64))
        else:
            *contexts, responses = encode(batch)
            labels = torch.arange(PAIRS)
            losses = [F.cross_entropy(x @ responses.T * 20.0, labels) for x in contexts]
            loss = torch.stack(losses).sum()
        torch.autograd.backward(loss)
        optimizer.step()

    return step, make


def count_steps(
    step: Callable[[Any], None], make: Callable[[np.random.Generator], Any]
) -> tuple[int, bool, Counter[str]]:
    """Return a step's operators, whether each of several had as many, and which they are."""
    generator = np.random.default_rng(0)
    step(make(generator))  # the optimiser's state is made
    counts = [counted(step, make(generator)) for _ in range(BATCHES)]
    return counts[-1].total(), len({each.total() for each in counts}) == 1, counts[-1]


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true", help="print each operator's count too")
    names = parser.parse_args().names
    rows = []
    print(f"{'model':28}{'ours':>8}{'plain':>8}{'ratio':>8}  the same in every step")
    for name in MODELS:
        ours, steady, operators = count_steps(*our_step(name))
        plain, _, _ = count_steps(*plain_step(name))
        rows.append({"model": name, "ours": ours, "plain": plain, "steady": steady})
        print(f"{name:28}{ours:8}{plain:8}{ours / plain:8.2f}  {'yes' if steady else 'NO'}")
        if names:
            for operator, count in operators.most_common():
                print(f"    {count:5} {operator}")
    write_result("launches", {"rows": rows})


if __name__ == "__main__":
    main()
