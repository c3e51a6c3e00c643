"""MAP's training: a linear map between the vectors of inputs and of responses, and the search for its settings.

Source: Henderson and others, "A Repository of Conversational Datasets" (2019), section 4.3, and the code published with
it. For vectors x of an input and y of a response, both of unit length, the score is

    x·((W + a·I) y)

with W (d, d) orthogonal and the scalar a = 1 at the start. The loss is the softmax over the responses of a batch with
label smoothing, as TensorFlow's loss does it: 0.2 is spread over all K responses, the true one included. The penalty is
l2/2 · Σ W². Adagrad as TensorFlow has it: its sums of squares start at 0.1, not at 0, which is what makes learning
rates of 10 and 3 possible.

All settings are trained at once, on the same batches: W is one array (d, settings, d), so that each of a step's four
products is one product of two matrices, which takes a processor no longer than its arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from rejoinder.errors import InputError
from rejoinder.processor import has_fast_bfloat16

Similarity: TypeAlias = Literal["cosine", "dot"]
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "dot")

GROUP = 100
"""Examples among whose responses each right one is sought when a setting is judged: 1-of-100."""

ADAGRAD_START = 0.1
"""What Adagrad's sums of squares start at (TensorFlow's default)."""

BLOCK = 1 << 19
"""Numbers of W that are updated at once."""


@dataclass(frozen=True)
class MapSettings:
    """How MAP is trained and what it ranks by."""

    learning_rates: tuple[float, ...] = (10.0, 3.0, 1.0, 0.3, 0.01)
    """Learning rates that are tried."""
    penalties: tuple[float, ...] = (0.0, 0.1, 0.01, 0.001)
    """L2 penalties on W that are tried with each."""
    similarity: Similarity | Literal["better"] = "better"
    """Ranked by the cosine of x and (W + a·I) y (the paper), by their dot product (its code), or by what is better on
    the examples that choose (the cosine where both are as good)."""
    smoothing: float = 0.2
    """Label smoothing."""
    batch: int = 256
    """Examples in a batch."""
    epochs: int = 100
    """Most epochs."""
    patience: int = 10
    """Epochs without a gain after which a setting is given up."""
    choosing: float = 0.2
    """Share of the examples that is not trained on, but chooses setting and epoch."""
    seed: int = 0
    """Of that choice, of W and of the batches."""

    def __post_init__(self) -> None:
        if self.similarity not in ("better", *SIMILARITIES):
            raise InputError(f"MAP's similarity must be cosine, dot or better, not {self.similarity!r}")
        if not self.learning_rates or not self.penalties or min(self.learning_rates) <= 0 or min(self.penalties) < 0:
            raise InputError("MAP needs at least one learning rate above 0 and one penalty of 0 or more")
        if not (0 <= self.smoothing < 1 and 0 < self.choosing < 1):
            raise InputError(f"smoothing and choosing are shares, not {self.smoothing} and {self.choosing}")
        if min(self.batch - 1, self.epochs, self.patience) < 1:
            raise InputError("MAP needs a batch of 2 or more, and 1 or more epochs and patience")

    @property
    def similarities(self) -> tuple[Similarity, ...]:
        """Those that are tried."""
        return SIMILARITIES if self.similarity == "better" else (self.similarity,)


@dataclass
class Curve:
    """How one setting went.

    Attributes:
        learning_rate: of Adagrad.
        penalty: the L2 on W.
        recall: 1-of-100 recall at 1 on the examples that choose, after each epoch; of two similarities the better's.
    """

    learning_rate: float
    penalty: float
    recall: list[float] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
        return {"learning_rate": self.learning_rate, "l2": self.penalty, "recall_at_1": self.recall}


class Mapping(NamedTuple):
    """What was learned.

    Attributes:
        matrix: W + a·I of the best epoch of the best setting, float32 (d, d); the identity where none is above it.
        similarity: what ranks.
        best: place of that setting among the curves.
        epoch: that epoch, from 1; 0 for the identity.
        unmapped: recall at 1 on the examples that choose without any mapping, which is SIM's.
        curves: how each setting went.
    """

    matrix: Tensor
    similarity: Similarity
    best: int
    epoch: int
    unmapped: float
    curves: list[Curve]


class _Pairs(NamedTuple):
    """Vectors of inputs and responses (n, d), and for each response a number that equal ones share (n,)."""

    x: Tensor
    y: Tensor
    number: Tensor

    def of(self, rows: Tensor) -> _Pairs:
        return _Pairs(self.x[rows], self.y[rows], self.number[rows])


def learn(x: Tensor, y: Tensor, number: Tensor, settings: MapSettings) -> Mapping:
    """Train every setting and keep the best, or the identity, which is SIM, where none is better on what chooses.

    Args:
        x: vectors of inputs, unit length, float32 (n, d).
        y: vectors of their responses, unit length, float32 (n, d).
        number: equal where responses are, int64 (n,): an equal response is not taken for a negative.
        settings: see there.

    Raises:
        InputError: no example is left to train on, or to choose by.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    order = torch.randperm(len(x), generator=generator)
    held = round(settings.choosing * len(x))
    if held < 2 or len(x) - held < 2:
        raise InputError(f"MAP cannot train on and choose by {len(x)} examples; give 10 or more")
    pairs = _Pairs(x, y, number)
    choose, train = pairs.of(order[:held]), pairs.of(order[held:])
    grid = [Curve(rate, penalty) for rate in settings.learning_rates for penalty in settings.penalties]
    start = torch.empty(x.shape[1], x.shape[1])
    torch.nn.init.orthogonal_(start, generator=generator)
    state = _State(start, grid, settings)
    identity = torch.eye(x.shape[1])
    highest = float(recall(choose, identity[:, None], "dot"))
    found = Mapping(identity, settings.similarities[0], 0, 0, highest, grid)
    for epoch in range(1, settings.epochs + 1):
        for rows in _parts(torch.randperm(len(train.x), generator=generator), settings.batch):
            if len(rows) > 1:
                state.step(train.of(rows))
        matrices = state.matrices()
        gained = [recall(choose, matrices, similarity).tolist() for similarity in settings.similarities]
        for column, place in enumerate(state.places):
            values = [of_one[column] for of_one in gained]
            grid[place].recall.append(max(values))
            if max(values) > highest:
                highest = max(values)
                matrix, similarity = matrices[:, column].clone(), settings.similarities[values.index(highest)]
                found = found._replace(matrix=matrix, similarity=similarity, best=place, epoch=epoch)
        state.keep([not _stalled(grid[place].recall, settings.patience) for place in state.places])
        if not state.places:
            break
    return found


def _parts(rows: Tensor, size: int) -> Iterator[Tensor]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _stalled(values: list[float], patience: int) -> bool:
    return len(values) - 1 - values.index(max(values)) >= patience


def recall(pairs: _Pairs, matrices: Tensor, similarity: Similarity) -> Tensor:
    """Recall at 1 of each setting, 1-of-100 in the order given; a tie and what is no number count against it.

    Args:
        pairs: n examples.
        matrices: W + a·I of each setting, (d, settings, d).
        similarity: what ranks.

    Returns:
        (settings,).
    """
    d, count, _ = matrices.shape
    hits = torch.zeros(count, dtype=torch.int64)
    for rows in _parts(torch.arange(len(pairs.x)), GROUP):
        x, y, _ = pairs.of(rows)
        mapped = (matrices.reshape(d * count, d) @ y.T).view(d, count, len(rows))
        if similarity == "cosine":
            mapped = mapped / mapped.norm(dim=0).clamp_min(1e-12)
        scores = (x @ mapped.view(d, -1)).view(len(rows), count, len(rows))
        own = scores.diagonal(dim1=0, dim2=2).T[..., None]
        hits += ((scores < own).sum(dim=2) == len(rows) - 1).sum(dim=0)
    return hits / len(pairs.x)


class _State:
    """W and a of the settings that are still in training, with Adagrad's sums.

    Args:
        start: the W that all start from (d, d).
        grid: the settings.
        settings: what they share.
    """

    def __init__(self, start: Tensor, grid: list[Curve], settings: MapSettings) -> None:
        self.places = list(range(len(grid)))
        self.smoothing = settings.smoothing
        self.weights = start[:, None].repeat(1, len(grid), 1)
        self.residual = torch.ones(len(grid))
        self.squares = torch.full_like(self.weights, ADAGRAD_START)
        self.residual_squares = torch.full_like(self.residual, ADAGRAD_START)
        self.rates = torch.tensor([curve.learning_rate for curve in grid])
        self.penalties = torch.tensor([curve.penalty for curve in grid])
        # Products of a step may be coarse, its sums are not; what is judged is always computed in float32.
        self.kind = torch.bfloat16 if has_fast_bfloat16() else torch.float32
        self.coarse = self.weights.to(self.kind)

    def step(self, pairs: _Pairs) -> None:
        """One step of all settings on the same batch of K examples."""
        d, count, _ = self.weights.shape
        k = len(pairs.x)
        x, y = pairs.x.to(self.kind), pairs.y.to(self.kind)
        plain = pairs.x @ pairs.y.T
        mapped = self.coarse.view(d * count, d) @ y.T
        scores = (x @ mapped.view(d, count * k)).float().view(k, count, k)
        slope = _slope(scores + self.residual[:, None] * plain[:, None], pairs.number, self.smoothing)
        products = (x.T @ slope.view(k, count * k).to(self.kind)).view(d, count, k)
        rows = max(1, BLOCK // (count * d))
        for first in range(0, d, rows):
            self._descend(slice(first, first + rows), products[first : first + rows], y)
        slip = (slope * plain[:, None]).sum(dim=(0, 2))
        self.residual_squares += slip * slip
        self.residual -= self.rates * slip / self.residual_squares.sqrt()

    def _descend(self, rows: slice, products: Tensor, y: Tensor) -> None:
        """Adagrad on some rows of W, few enough to stay in the processor's cache from the product to the update."""
        weights, squares = self.weights[rows], self.squares[rows]
        gradient = (products.reshape(-1, len(y)) @ y).float().view(weights.shape)
        gradient.addcmul_(weights, self.penalties[:, None])
        squares.addcmul_(gradient, gradient)
        weights.sub_(gradient.mul_(squares.rsqrt()).mul_(self.rates[:, None]))
        self.coarse[rows] = weights

    def matrices(self) -> Tensor:
        """W + a·I of each setting (d, settings, d)."""
        return self.weights + self.residual[:, None] * torch.eye(len(self.weights))[:, None]

    def keep(self, chosen: list[bool]) -> None:
        """Go on with some settings alone."""
        if all(chosen):
            return
        rows = torch.tensor(chosen)
        self.places = [place for place, kept in zip(self.places, chosen, strict=True) if kept]
        for name in ("weights", "coarse", "squares"):
            setattr(self, name, getattr(self, name)[:, rows])
        for name in ("residual", "residual_squares", "rates", "penalties"):
            setattr(self, name, getattr(self, name)[rows])


def _slope(scores: Tensor, number: Tensor, smoothing: float) -> Tensor:
    """Derivative of the batch's loss by its scores, both (K, settings, K): (p - target) / K.

    Responses that equal the true one are masked: they are neither in the softmax nor in the smoothing.
    """
    k = len(scores)
    masked = (number[:, None] == number).fill_diagonal_(False)
    shown = (k - masked.sum(dim=1)).to(scores.dtype)
    target = (smoothing / shown)[:, None].expand(k, k).masked_fill(masked, 0.0).clone()
    target.diagonal().add_(1 - smoothing)
    shares = scores.masked_fill_(masked[:, None], float("-inf")).softmax(dim=2)
    return shares.sub_(target[:, None]).div_(k)
