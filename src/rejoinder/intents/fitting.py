"""Training of heads on encodings: logistic regression by L-BFGS, and the paper's net by SGD or Adam."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rejoinder.errors import InputError
from rejoinder.intents.heads import Head
from rejoinder.intents.lbfgs import minimise
from rejoinder.intents.settings import FeedForward, Logistic, Settings
from rejoinder.ranker import FloatArray

IntArray = npt.NDArray[np.int64]
Advance = Callable[[int], None]


@dataclass(frozen=True)
class Encoded:
    """Encoded texts and what they are.

    Attributes:
        vectors: (n, d), float32.
        targets: (n, K), float32: 1 where text i has label k, else 0.
        several: texts may have several labels, or none; else each row has exactly one 1.
    """

    vectors: FloatArray
    targets: FloatArray
    several: bool = False

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def classes(self) -> IntArray:
        """Number of the (first) label of each text, (n,)."""
        return np.asarray(self.targets.argmax(axis=1), dtype=np.int64)

    def rows(self, chosen: IntArray) -> Encoded:
        """Some of the texts."""
        return Encoded(self.vectors[chosen], self.targets[chosen], self.several)


@dataclass(frozen=True)
class Fitted:
    """A trained head.

    Attributes:
        head: it.
        epochs: epochs or L-BFGS steps that were done.
        validation: share of right held-out texts at the best epoch; None where nothing was held out.
    """

    head: Head
    epochs: int
    validation: float | None = None


def fit(
    settings: Settings, data: Encoded, *, valid: Encoded | None = None, seed: int = 0, advance: Advance | None = None
) -> Fitted:
    """Train a head.

    Args:
        settings: of the classifier.
        data: what to learn from.
        valid: what early stopping looks at; None: a part of `data` is held out where the settings ask for early
            stopping. Logistic regression needs none.
        seed: of initial weights, order, dropout and what is held out.
        advance: called after each epoch, with 1.

    Raises:
        InputError: there are fewer than two labels, or no texts.
    """
    if len(data) == 0 or data.targets.shape[1] < 2:
        raise InputError(f"{len(data)} texts of {data.targets.shape[1]} intents; two intents at least are needed")
    if isinstance(settings, Logistic):
        return _fit_logistic(settings, data)
    if settings.patience and valid is None:
        kept, held = hold_out(data, settings.held_out, seed)
        data, valid = data.rows(kept), data.rows(held)
    return _fit_network(settings, data, valid if settings.patience else None, seed, advance)


def loss_of(logits: Tensor, targets: Tensor, several: bool) -> Tensor:
    """Mean cross-entropy over the labels; with several labels the sum of the binary ones, mean over texts."""
    if several:
        return nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum") / len(logits)
    return -(targets * logits.log_softmax(dim=1)).sum(dim=1).mean()


def accuracy(head: Head, data: Encoded) -> float:
    """Share of texts whose label, or with several whose very set of labels, is found."""
    logits = head.logits(data.vectors)
    if data.several:
        return float(((logits > 0) == (data.targets > 0)).all(axis=1).mean())
    return float((logits.argmax(axis=1) == data.classes).mean())


def held_out_loss(head: Head, data: Encoded) -> float:
    """The loss without dropout: on few held-out texts a far finer measure than the share that is right."""
    return float(loss_of(torch.from_numpy(head.logits(data.vectors)), torch.from_numpy(data.targets), data.several))


def hold_out(data: Encoded, share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Numbers of texts kept and held out: of each intent the share, rounded, one at least, but never its last text."""
    generator = np.random.default_rng(seed)
    held = []
    classes = data.classes
    for number in range(data.targets.shape[1]):
        rows = generator.permutation(np.flatnonzero(classes == number))
        held.append(rows[: min(max(1, round(share * len(rows))), max(len(rows) - 1, 0))])
    out = np.sort(np.concatenate(held))
    if len(out) == 0:
        raise InputError("every intent has one text, so none can be held out for early stopping; set patience=0")
    return np.setdiff1d(np.arange(len(data)), out), out


def _fit_logistic(settings: Logistic, data: Encoded) -> Fitted:
    """From zero, on standardised vectors; what that does is linear, and goes into the weights afterwards."""
    mean, factor = _standard(data.vectors)
    x, targets = (torch.from_numpy(data.vectors) - mean) * factor, torch.from_numpy(data.targets)
    size, labels = x.shape[1], targets.shape[1]

    def objective(parameters: Tensor) -> tuple[float, Tensor]:
        weight, bias = parameters[:-labels].view(size, labels), parameters[-labels:]
        logits = torch.addmm(bias, x, weight)
        penalty = 1 / (settings.strength * len(x))
        value = loss_of(logits, targets, data.several) + penalty / 2 * weight.square().sum()
        wrong = (logits.sigmoid() if data.several else logits.softmax(dim=1)) - targets
        wrong /= len(x)
        gradient = torch.addmm(weight, x.T, wrong, beta=penalty)
        return float(value), torch.cat([gradient.view(-1), wrong.sum(dim=0)])

    with torch.inference_mode():
        start = torch.zeros((size + 1) * labels)
        found, steps = minimise(objective, start, iterations=settings.iterations)
        scaled = found[:-labels].view(size, labels) * factor[:, None]
        tensors = {"layers.0.weight": scaled.T.contiguous(), "layers.0.bias": found[-labels:] - mean @ scaled}
    head = Head([size, labels])
    head.load_state_dict(tensors)
    return Fitted(head.eval(), steps)


def _standard(vectors: FloatArray) -> tuple[Tensor, Tensor]:
    """Mean and factor (d,) that give every number mean 0 and variance 1/d: rows then have a length of about 1.

    A number that is the same in all texts says nothing and gets the factor 0.
    """
    spread = vectors.std(axis=0)
    told = spread > 1e-4 * max(float(spread.max()), 1e-12)
    factor = np.where(told, 1.0 / (np.where(told, spread, 1.0) * np.sqrt(vectors.shape[1])), 0.0)
    return torch.from_numpy(vectors.mean(axis=0)), torch.from_numpy(factor.astype(np.float32))


def _fit_network(
    settings: FeedForward, data: Encoded, valid: Encoded | None, seed: int, advance: Advance | None
) -> Fitted:
    generator = torch.Generator().manual_seed(seed)
    hidden = [settings.hidden_size] * settings.hidden_layers
    # Initial weights and dropout come from torch's own state, which stays as it was for everybody else.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = [data.vectors.shape[1], *hidden, data.targets.shape[1]]
        head = Head(sizes, settings.input_dropout, settings.hidden_dropout).train()
        optimizer = _optimizer(settings, head)
        best, best_weights, best_epoch = float("inf"), head.state_dict(), 0
        epoch = 0
        for epoch in range(1, settings.epochs + 1):
            _epoch(settings, head, optimizer, data, epoch - 1, generator)
            if advance is not None:
                advance(1)
            if valid is None:
                continue
            found = held_out_loss(head, valid)
            if found < best:
                best, best_weights, best_epoch = found, copy.deepcopy(head.state_dict()), epoch
            elif epoch - best_epoch >= settings.patience:
                break
    if valid is not None:
        head.load_state_dict(best_weights)
    return Fitted(head.eval(), epoch, None if valid is None else accuracy(head, valid))


def _optimizer(settings: FeedForward, head: Head) -> Any:
    kind = torch.optim.SGD if settings.optimizer == "sgd" else torch.optim.Adam
    return kind(head.parameters(), lr=settings.learning_rate)


def _epoch(
    settings: FeedForward, head: Head, optimizer: Any, data: Encoded, epoch: int, generator: torch.Generator
) -> None:
    x, targets = torch.from_numpy(data.vectors), torch.from_numpy(data.targets)
    steps = -(-len(x) // settings.batch_size)
    drawn = settings.sampling == "replacement"
    order = (
        torch.randint(len(x), (steps * settings.batch_size,), generator=generator)
        if drawn
        else torch.randperm(len(x), generator=generator)
    )
    for step, rows in enumerate(torch.split(order, settings.batch_size), epoch * steps):
        if settings.decay == "linear":
            optimizer.param_groups[0]["lr"] = settings.learning_rate * (1 - step / (steps * settings.epochs))
        optimizer.zero_grad()
        loss_of(head(x[rows]), targets[rows], data.several).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
