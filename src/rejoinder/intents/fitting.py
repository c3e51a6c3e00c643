"""Heads on frozen encodings: logistic regression (scikit-learn's), and the paper's feed-forward net (CONVERT 4.3)."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import importlib
import itertools
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from rejoinder.errors import InputError, MissingExtraError
from rejoinder.files import atomic_file, parse_json
from rejoinder.intents.data import IntArray, shuffled_ranks
from rejoinder.progress import Advance, silent
from rejoinder.ranker import FloatArray
from rejoinder.settings import Count, Decay, Natural, Positive, parse_setting, section, validate

Kind = TypeVar("Kind")

NEVER = -1e4  # logit of a label that no training text has, as in a fold without an intent's only text


@section
class Logistic:
    """Multinomial logistic regression: the mean cross-entropy plus ||W||² / (2 · strength · n), minimised by L-BFGS.

    With several labels per text, one binary regression for each label.
    """

    kind: Literal["logistic"] = "logistic"
    strength: Positive = 30.0  # scikit-learn's C, for standardised vectors of length 1 on average
    iterations: Count = 60  # L-BFGS steps at most


@section
class FeedForward:
    """The paper's feed-forward net on frozen encodings (CONVERT, section 4.3)."""

    kind: Literal["feed-forward"] = "feed-forward"
    hidden_size: Count = 512
    hidden_layers: Annotated[int, Field(ge=0, le=8)] = 1  # with ReLU; 0: a linear classifier
    input_dropout: Decay = 0.5  # of the encodings
    hidden_dropout: Decay = 0.5  # after each hidden layer
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: Positive = 0.75  # of the first step
    decay: Literal["constant", "linear"] = "constant"  # linear: the learning rate falls to 0 over all epochs
    batch_size: Count = 32  # texts of a step
    epochs: Count = 120  # at most; with replacement, as many steps as that many passes would take
    sampling: Literal["pass", "replacement"] = "pass"  # every text once an epoch, or drawn with replacement
    patience: Natural = 5
    """Epochs without a lower loss on held-out texts after which training ends; the best is kept. 0: all epochs, no
    held-out texts, the last is kept."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of each intent's training texts held out where there are no validation texts: one at least, never all."""


Settings: TypeAlias = Logistic | FeedForward
SETTINGS: Any = Annotated[Settings, Field(discriminator="kind")]

# Logistic regression; the paper's net with SGD; the setting of the code that the authors released.
PRESETS: Mapping[str, Settings] = {
    "logistic": Logistic(),
    "paper": FeedForward(),
    "original": FeedForward(
        input_dropout=0.75, hidden_dropout=0.0, learning_rate=0.7, decay="linear", sampling="replacement", patience=0
    ),
}


def parse_settings(preset: str = "logistic", changes: Sequence[str] = ()) -> Settings:
    """Return a preset with some of its settings changed, such as "hidden_size=256"."""
    if preset == "logistic":
        sklearn("linear_model")  # or all encoding would be in vain
    return change_settings(PRESETS[preset], changes)


def change_settings(start: Kind, changes: Sequence[str]) -> Kind:
    """Return settings with some of them changed; see `parse_settings`."""
    values: dict[str, Any] = dataclasses.asdict(start)  # type: ignore[call-overload]
    for change in changes:
        name, value = parse_setting(change, "NAME=VALUE")
        values[name] = value
    return validate(type(start), values, "--set")


def sklearn(module: str) -> Any:
    """Import a module of scikit-learn, or raise MissingExtraError."""
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError:
        raise MissingExtraError("training or evaluating an intent classifier", "intents") from None


@dataclasses.dataclass(frozen=True)
class Encoded:
    """Vectors (n, d) of texts, and targets (n, K): 1 where a text has a label, once a row unless `several`."""

    vectors: FloatArray
    targets: FloatArray
    several: bool = False
    seconds: float = 0.0  # that encoding took, of what these rows were chosen from

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def classes(self) -> IntArray:
        """The (first) label of each text, (n,)."""
        return np.asarray(self.targets.argmax(axis=1), dtype=np.int64)

    def rows(self, chosen: IntArray) -> Encoded:
        """Return the texts at these positions."""
        return dataclasses.replace(self, vectors=self.vectors[chosen], targets=self.targets[chosen])


class Head(nn.Module):
    """Linear layers of `sizes` d, ..., K with dropout before each and ReLU between them: (n, d) -> (n, K)."""

    def __init__(self, sizes: Sequence[int], input_dropout: float = 0.0, hidden_dropout: float = 0.0) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.input_dropout, self.hidden_dropout = input_dropout, hidden_dropout

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, K) of vectors (n, d)."""
        first, *others = self.layers
        x = first(nn.functional.dropout(x, self.input_dropout, self.training))
        for layer in others:
            x = layer(nn.functional.dropout(torch.relu(x), self.hidden_dropout, self.training))
        return x

    @torch.inference_mode()
    def logits(self, vectors: FloatArray) -> FloatArray:
        """Return the logits (n, K) of vectors (n, d), without dropout.

        They are computed in float64: in float32 those of a text depend, in their last digits, on what it is beside.
        """
        was_training, _ = self.training, self.eval()
        exact = {name: parameter.double() for name, parameter in self.named_parameters()}
        result = torch.func.functional_call(self, exact, torch.from_numpy(vectors.astype(np.float64)))
        self.train(was_training)
        return result.float().numpy()


def head_from(tensors: Mapping[str, Tensor]) -> Head:
    """Return the head whose `state_dict` these are; others are an InputError."""
    try:
        weights = [tensors[f"layers.{number}.weight"] for number in range(len(tensors) // 2)]
        head = Head([weights[0].shape[1], *(len(weight) for weight in weights)])
        head.load_state_dict(dict(tensors))
    except (KeyError, IndexError, RuntimeError):
        raise InputError("the classifier's weights are no feed-forward net's; copy its folder again") from None
    return head.eval()


class Fitted(NamedTuple):
    """A trained head, the epochs or L-BFGS steps done, and the accuracy on held-out texts where there were some."""

    head: Head
    epochs: int
    validation: float | None = None


def fit(settings: Settings, data: Encoded, *, valid: Encoded | None = None, seed: int = 0) -> Fitted:
    """Train a head; without `valid`, a part of `data` is held out where the settings ask for early stopping."""
    if isinstance(settings, Logistic):
        return _fit_logistic(settings, data)
    if settings.patience and valid is None:
        kept, held = hold_out(data, settings.held_out, seed)
        data, valid = data.rows(kept), data.rows(held)
    return _fit_network(settings, data, valid if settings.patience else None, seed)


def accuracy(head: Head, data: Encoded) -> float:
    """Return the share of texts whose label, or exact set of labels, is found."""
    logits = head.logits(data.vectors)
    if data.several:
        return float(((logits > 0) == (data.targets > 0)).all(axis=1).mean())
    return float((logits.argmax(axis=1) == data.classes).mean())


def hold_out(data: Encoded, share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Return the positions of texts kept and held out: of each intent the share, one at least, never its last text."""
    # scikit-learn's stratified splits refuse an intent with one text, and to hold out fewer texts than intents.
    counts = np.bincount(data.classes, minlength=data.targets.shape[1])
    wanted = np.minimum(np.maximum(np.round(share * counts), 1), counts - 1)
    held = shuffled_ranks(data.classes, seed) < wanted[data.classes]
    if not held.any():
        raise InputError("every intent has one text, so none can be held out for early stopping; set patience=0")
    return np.flatnonzero(~held), np.flatnonzero(held)


def _fit_logistic(settings: Logistic, data: Encoded) -> Fitted:
    """Fit to standardised vectors; standardising is linear, so it goes into the weights afterwards."""
    size, labels = data.vectors.shape[1], data.targets.shape[1]
    mean, spread = data.vectors.mean(axis=0), data.vectors.std(axis=0)
    # Variance 1/d each, for rows of length 1 on average. What is the same in all texts says nothing: factor 0.
    varies = spread > 1e-4 * max(float(spread.max()), 1e-12)
    factor = np.where(varies, 1 / np.where(varies, spread * np.sqrt(size), 1), 0).astype(np.float32)
    x = (data.vectors - mean) * factor
    weight, bias, steps = np.zeros((labels, size)), np.full(labels, NEVER), 0

    def regression(answers: Any, strength: float) -> tuple[FloatArray, FloatArray]:
        nonlocal steps
        model = sklearn("linear_model").LogisticRegression(C=strength, max_iter=settings.iterations)
        with warnings.catch_warnings():  # that it stops after the iterations asked for, or that texts are few
            warnings.simplefilter("ignore")
            model.fit(x, answers)
        steps = max(steps, int(model.n_iter_.max()))
        return model.coef_, model.intercept_

    if data.several:
        for k, answers in enumerate(data.targets.T > 0):
            if answers.all():
                bias[k] = -NEVER
            elif answers.any():
                weight[[k]], bias[[k]] = regression(answers, settings.strength)
    else:
        known = np.unique(data.classes)
        if len(known) > 2:
            weight[known], bias[known] = regression(data.classes, settings.strength)
        elif len(known) == 2:  # scikit-learn's has one row w for two classes; with rows -w/2, w/2 the penalty is half
            w, b = regression(data.classes, 2 * settings.strength)
            weight[known], bias[known] = np.vstack([-w, w]) / 2, np.hstack([-b, b]) / 2
        else:
            bias[known] = 0.0
    weight *= factor
    tensors = {"layers.0.weight": weight, "layers.0.bias": bias - weight @ mean}
    return Fitted(head_from({name: torch.from_numpy(value).float() for name, value in tensors.items()}), steps)


def _fit_network(settings: FeedForward, data: Encoded, valid: Encoded | None, seed: int) -> Fitted:
    generator = torch.Generator().manual_seed(seed)
    x, targets = torch.from_numpy(data.vectors), torch.from_numpy(data.targets)
    sizes = [x.shape[1], *[settings.hidden_size] * settings.hidden_layers, targets.shape[1]]
    steps = -(-len(x) // settings.batch_size)
    # Initial weights and dropout come from torch's own generator, whose state callers find as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = Head(sizes, settings.input_dropout, settings.hidden_dropout).train()
        kind: Any = torch.optim.SGD if settings.optimizer == "sgd" else torch.optim.Adam
        optimizer = kind(head.parameters(), lr=settings.learning_rate)
        best, best_weights, best_epoch, epoch = float("inf"), head.state_dict(), 0, 0
        for epoch in range(1, settings.epochs + 1):
            if settings.sampling == "replacement":
                order = torch.randint(len(x), (steps * settings.batch_size,), generator=generator)
            else:
                order = torch.randperm(len(x), generator=generator)
            for step, rows in enumerate(torch.split(order, settings.batch_size), (epoch - 1) * steps):
                if settings.decay == "linear":
                    optimizer.param_groups[0]["lr"] = settings.learning_rate * (1 - step / (steps * settings.epochs))
                optimizer.zero_grad()
                _loss(head(x[rows]), targets[rows], data.several).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            if valid is None:
                continue
            # The loss: on few held-out texts a far finer measure than accuracy.
            logits = torch.from_numpy(head.logits(valid.vectors))
            found = float(_loss(logits, torch.from_numpy(valid.targets), valid.several))
            if found < best:
                best, best_weights, best_epoch = found, copy.deepcopy(head.state_dict()), epoch
            elif epoch - best_epoch >= settings.patience:
                break
    if valid is not None:
        head.load_state_dict(best_weights)
    return Fitted(head.eval(), epoch, None if valid is None else accuracy(head, valid))


def _loss(logits: Tensor, targets: Tensor, several: bool) -> Tensor:
    """Return the mean cross-entropy; with several labels per text, of the sums of the labels' binary ones."""
    if several:
        return nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum") / len(logits)
    return nn.functional.cross_entropy(logits, targets)


def paper_grid() -> Iterator[FeedForward]:
    """Yield the paper's grid (CONVERT, section 4.3): 54 settings, as nets without hidden layers have one size."""
    adam: dict[str, Any] = {"optimizer": "adam", "learning_rate": 4e-4, "decay": "linear"}
    shapes = [(0, 512), *itertools.product((1, 2), (128, 256, 512, 1024))]
    for (layers, size), rate, optimizer in itertools.product(shapes, (0.75, 0.5, 0.25), ({}, adam)):
        yield FeedForward(hidden_size=size, hidden_layers=layers, input_dropout=rate, hidden_dropout=rate, **optimizer)


@dataclasses.dataclass(frozen=True)
class GridRow:
    """Settings and their accuracy on the validation texts."""

    settings: Settings
    accuracy: float
    epochs: int
    seconds: float


def run_grid(
    grid: Sequence[Settings], data: Encoded, valid: Encoded, log: Path, *, seed: int = 0, advance: Advance = silent
) -> list[GridRow]:
    """Train the settings of a grid that the log lacks, and return all rows, the best first.

    The log has a line of JSON for each setting that is done. Early stopping and the order of the rows look at `valid`.
    """
    sha256 = hashlib.sha256(f"{seed} {data.several}".encode())
    for array in (data.vectors, data.targets, valid.vectors, valid.targets):
        sha256.update(array.tobytes())
    digest = sha256.hexdigest()
    rows = _read_log(log, digest)
    for settings in grid:
        if settings not in rows:
            start = time.perf_counter()
            fitted = fit(settings, data, valid=valid, seed=seed)
            seconds = time.perf_counter() - start
            rows[settings] = GridRow(settings, accuracy(fitted.head, valid), fitted.epochs, seconds)
            lines = (json.dumps({"data": digest, **dataclasses.asdict(row)}) + "\n" for row in rows.values())
            with atomic_file(log, durable=False) as part:
                part.write_text("".join(lines), encoding="utf-8")
        advance(1)
    return sorted((rows[settings] for settings in grid), key=lambda row: -row.accuracy)


def _read_log(log: Path, digest: str) -> dict[Settings, GridRow]:
    rows: dict[Settings, GridRow] = {}
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        try:
            values = parse_json(line)
            if values.pop("data") != digest:
                raise InputError(f"{log} is of other texts, vectors or another seed; name another folder")
            settings = validate(SETTINGS, values.pop("settings"), str(log))
            rows[settings] = GridRow(settings, **values)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{log} is damaged ({error}); delete it to run the grid again") from None
    return rows
