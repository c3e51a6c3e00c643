"""MAP: a ranker that compares the vectors of a pretrained encoder through a linear map.

Henderson and others, "A Repository of Conversational Datasets" (2019), sections 4.2 and 4.3, and
its code. For x of an input and y of a response, MAP's score is x·((W + a·I) y), with W (d, d)
orthogonal and a = 1 at the start. The loss is the softmax over the responses of a batch with label
smoothing, the penalty l2/2 · Σ W². All settings are trained at once: they share the batches, and
each of a step's four products is one of two matrices.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.conversations import Conversation
from rejoinder.corpora.schema import Example
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.words.fitted import not_fitted, require_examples
from rejoinder.processor import has_fast_bfloat16
from rejoinder.progress import Advance

Similarity: TypeAlias = Literal["cosine", "dot"]
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "dot")
FEWEST = 10  # examples that MAP needs at least
CHOOSING = 0.2  # share of the examples that is not trained on, but chooses setting and epoch
BATCH = 256
SMOOTHING = 0.2  # of the labels
# examples among whose responses each right one is sought when a setting is judged: 1-of-100
GROUP = 100
ADAGRAD_START = 0.1  # what Adagrad's sums of squares start at (TensorFlow's default)


@dataclass(frozen=True)
class MapSettings:
    """Settings of MAP: its training and what it ranks by."""

    learning_rates: tuple[float, ...] = (10.0, 3.0, 1.0, 0.3, 0.01)  # learning rates that are tried
    penalties: tuple[float, ...] = (0.0, 0.1, 0.01, 0.001)
    """L2 penalties on W that are tried with each."""
    similarity: Similarity | Literal["better"] = "better"
    """Ranked by the cosine of x and (W + a·I) y (the paper), by their dot product (its code), or by
    what is better on the examples that choose (the cosine where both are as good)."""
    epochs: int = 100  # most epochs
    patience: int = 10  # epochs without a gain after which a setting is given up
    seed: int = 0  # of the examples that choose, of W and of the batches


class Map(DualEncoder):
    """Ranks by x·((W + a·I) y) with a learned W (fulfils `encoders.protocol.FittedRanker`).

    `encoder` gives a conversation one vector.
    """

    def __init__(self, encoder: DualEncoder, settings: MapSettings | None = None) -> None:
        self.encoder: Any = encoder
        self.settings = settings or MapSettings()
        self._matrix: FloatArray | None = None
        self._similarity: Similarity = "cosine"

    def fit(
        self, examples: Sequence[Example], progress: Advance | None = None
    ) -> Mapping[str, Any]:
        """Learn W and the scalar a; see `FittedRanker.fit`.

        The learning curve of every setting is returned too. Where no map is better than none on the
        examples that choose, the epoch is 0 and Map ranks as Sim does.
        """
        require_examples(examples, FEWEST, "MAP")
        responses = [example.response for example in examples]
        numbers: dict[str, int] = {}
        number = torch.tensor([numbers.setdefault(text, len(numbers)) for text in responses])
        x = unit_rows(
            self.encoder.encode_contexts([example.context for example in examples], progress)
        )
        y = unit_rows(self.encoder.encode_responses(responses, progress))
        with torch.inference_mode():
            learned = learn_map(
                Pairs(torch.from_numpy(x), torch.from_numpy(y), number), self.settings
            )
        self._matrix = learned.matrix.numpy()
        self._similarity = learned.similarity
        chosen = (
            learned.curves[learned.best] if learned.epoch else Curve(0.0, 0.0, [learned.unmapped])
        )
        return {
            "examples": len(examples),
            "similarity": learned.similarity,
            "learning_rate": chosen.learning_rate,
            "l2": chosen.l2,
            "epoch": learned.epoch,
            "recall_at_1": chosen.recall_at_1[max(learned.epoch, 1) - 1],
            "recall_at_1_unmapped": learned.unmapped,
            "curves": [vars(curve) for curve in learned.curves],
        }

    @property
    def name(self) -> str:
        """MAP and the encoder."""
        return f"map:{self.encoder.name}"

    @property
    def fingerprint(self) -> str:
        """The encoder's and the digest of W + a·I, if it is fitted."""
        matrix = b"" if self._matrix is None else self._matrix.tobytes()
        return hashlib.sha256(self.encoder.fingerprint.encode() + matrix).hexdigest()

    def encode_contexts(self, contexts: Sequence[Conversation]) -> FloatArray:
        """Return x; see `encoders.protocol.DualEncoder`."""
        return unit_rows(self.encoder.encode_contexts(contexts))

    def encode_responses(self, responses: Sequence[str]) -> FloatArray:
        """Return (W + a·I) y; see `encoders.protocol.DualEncoder`."""
        if self._matrix is None:
            raise not_fitted("MAP")
        if not responses:  # vectors of no text have no size
            return np.zeros((0, len(self._matrix)), dtype=np.float32)
        mapped: FloatArray = unit_rows(self.encoder.encode_responses(responses)) @ self._matrix.T
        return unit_rows(mapped) if self._similarity == "cosine" else mapped


@dataclass
class Curve:
    """Course of the training of one setting."""

    learning_rate: float
    l2: float
    """The penalty on W."""
    recall_at_1: list[float] = field(default_factory=list)
    """1-of-100, after each epoch; the better similarity's."""


class LearnedMap(NamedTuple):
    """Result of the training.

    Where no setting is better than none, the epoch is 0 and the matrix the identity.
    """

    matrix: Tensor  # W + a·I, float32 (d, d)
    similarity: Similarity
    best: int  # place of the best setting among the curves
    epoch: int  # its best one, from 1
    unmapped: float  # recall at 1 of the identity on the examples that choose
    curves: list[Curve]


class Pairs(NamedTuple):
    """Vectors of unit length of n inputs and their responses, float32 (n, d)."""

    x: Tensor
    y: Tensor
    number: Tensor  # (n,): equal where responses are; an equal one is not taken for a negative

    def select(self, rows: Tensor) -> Pairs:
        """Return the pairs of these rows."""
        return Pairs(self.x[rows], self.y[rows], self.number[rows])


def learn_map(pairs: Pairs, settings: MapSettings) -> LearnedMap:
    """Train every setting and keep the best on held-out examples.

    Where none is better, it is the identity, which is SIM.
    """
    x = pairs.x
    generator = torch.Generator().manual_seed(settings.seed)
    order = torch.randperm(len(x), generator=generator)
    held = round(CHOOSING * len(x))
    choose = pairs.select(order[:held])
    train = pairs.select(order[held:])
    curves = [
        Curve(rate, penalty) for rate in settings.learning_rates for penalty in settings.penalties
    ]
    start = torch.empty(x.shape[1], x.shape[1])
    torch.nn.init.orthogonal_(start, generator=generator)
    trainer = MapTrainer(start, curves)
    similarities = SIMILARITIES if settings.similarity == "better" else (settings.similarity,)
    identity = torch.eye(x.shape[1])
    highest = float(recall_at_1(choose, identity[None], "dot"))
    best = LearnedMap(identity, similarities[0], 0, 0, highest, curves)
    for epoch in range(1, settings.epochs + 1):
        for rows in torch.split(torch.randperm(len(train.x), generator=generator), BATCH):
            if len(rows) > 1:
                trainer.step(train.select(rows))
        matrices = trainer.matrices()
        gained = [recall_at_1(choose, matrices, similarity).tolist() for similarity in similarities]
        for column, number in enumerate(trainer.places):
            values = [recalls[column] for recalls in gained]
            curves[number].recall_at_1.append(max(values))
            if max(values) > highest:
                highest = max(values)
                matrix = matrices[column].clone()
                similarity = similarities[values.index(highest)]
                best = best._replace(matrix=matrix, similarity=similarity, best=number, epoch=epoch)
        curves_left = [curves[setting].recall_at_1 for setting in trainer.places]
        trainer.keep(
            [epoch - 1 - recalls.index(max(recalls)) < settings.patience for recalls in curves_left]
        )
        if not trainer.places:
            break
    return best


def recall_at_1(pairs: Pairs, matrices: Tensor, similarity: Similarity) -> Tensor:
    """Return the recall at 1 of each W + a·I (settings, d, d), 1-of-100 in the order given.

    Ties count against it.
    """
    hits = torch.zeros(len(matrices), dtype=torch.int64)
    for x, y in zip(torch.split(pairs.x, GROUP), torch.split(pairs.y, GROUP), strict=True):
        mapped = matrices @ y.T
        if similarity == "cosine":
            mapped = mapped / mapped.norm(dim=1, keepdim=True).clamp_min(1e-12)
        scores = x @ mapped  # (settings, inputs, responses)
        own = scores.diagonal(dim1=1, dim2=2)[..., None]
        hits += ((scores < own).sum(dim=2) == len(y) - 1).sum(dim=1)
    return hits / len(pairs.x)


class MapTrainer:
    """W and a of the settings that are still in training, each with its own Adagrad.

    All start from one W (d, d).
    """

    def __init__(self, start: Tensor, curves: Sequence[Curve]) -> None:
        self.settings = [
            SettingState.begin(number, start, curve) for number, curve in enumerate(curves)
        ]
        # Products of a step may be coarse, its sums are not; what is judged is always computed in
        # float32.
        self.kind = torch.bfloat16 if has_fast_bfloat16() else torch.float32

    @property
    def places(self) -> list[int]:
        """Places of the settings that are still in training among all."""
        return [setting.place for setting in self.settings]

    def step(self, pairs: Pairs) -> None:
        """Take one step of all settings on the same batch of K examples."""
        d = pairs.x.shape[1]
        k = len(pairs.x)
        count = len(self.settings)
        x = pairs.x.to(self.kind)
        y = pairs.y.to(self.kind)
        plain = pairs.x @ pairs.y.T
        coarse = torch.stack([setting.weights for setting in self.settings], dim=1).to(self.kind)
        mapped = (x @ coarse.view(d, count * d)).view(k * count, d)
        scores = (mapped @ y.T).float().view(k, count, k)
        residuals = torch.stack([setting.residual for setting in self.settings])
        slope = _slope(scores + residuals[:, None] * plain[:, None], pairs.number)
        pulled = (slope.to(self.kind).view(k * count, k) @ y).view(k, count * d)
        products = (x.T @ pulled).view(d, count, d)
        gradients = torch.empty(count, d, d).copy_(products.transpose(0, 1))
        slips = (slope * plain[:, None]).sum(dim=(0, 2))
        for setting, gradient, slip in zip(self.settings, gradients, slips, strict=True):
            setting.step(gradient, slip)

    def matrices(self) -> Tensor:
        """Return W + a·I of each setting (settings, d, d)."""
        identity = torch.eye(len(self.settings[0].weights))
        return torch.stack(
            [setting.weights + setting.residual * identity for setting in self.settings]
        )

    def keep(self, chosen: list[bool]) -> None:
        """Go on with some settings alone."""
        self.settings = list(itertools.compress(self.settings, chosen))


class SettingState(NamedTuple):
    """W and a of a setting, and their optimiser."""

    place: int
    weights: Tensor  # W (d, d)
    residual: Tensor  # a ()
    optimizer: torch.optim.Adagrad

    @classmethod
    def begin(cls, place: int, start: Tensor, curve: Curve) -> SettingState:
        """Return a setting before its first step."""
        weights = start.clone()
        residual = torch.ones(())
        groups: list[dict[str, Any]] = [
            {"params": [weights], "weight_decay": curve.l2},
            {"params": [residual]},
        ]
        optimizer = torch.optim.Adagrad(
            groups,
            lr=curve.learning_rate,
            initial_accumulator_value=ADAGRAD_START,
            fused=True,
        )
        return cls(place, weights, residual, optimizer)

    def step(self, gradient: Tensor, slip: Tensor) -> None:
        """Take a step along the derivatives of the loss by W and by a."""
        self.weights.grad = gradient
        self.residual.grad = slip
        self.optimizer.step()


def _slope(scores: Tensor, number: Tensor) -> Tensor:
    """Return the derivative of the batch's loss by its scores, both (K, settings, K).

    Equal responses do not count.
    """
    k = len(scores)
    masked = (number[:, None] == number).fill_diagonal_(False)
    shown = (k - masked.sum(dim=1)).to(scores.dtype)
    target = (SMOOTHING / shown)[:, None].expand(k, k).masked_fill(masked, 0.0).clone()
    target.diagonal().add_(1 - SMOOTHING)
    shares = scores.masked_fill_(masked[:, None], float("-inf")).softmax(dim=2)
    return shares.sub_(target[:, None]).div_(k)
