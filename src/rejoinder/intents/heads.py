"""Heads on frozen encodings: logistic regression, and a feed-forward network (CONVERT 4.3).

The regression is scikit-learn's.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.intents import SCORES, HeldOut, scores
from rejoinder.intents.data import IntArray, shuffled_ranks
from rejoinder.progress import Advance, silent
from rejoinder.settings import Count, Decay, Natural, Positive, parse_setting, section, validate

Kind = TypeVar("Kind")

FOLDS = 5
# logit of a label without training text, as in a fold without an intent's only text
NEVER = -1e4


@section
class Logistic:
    """Multinomial logistic regression, fitted by L-BFGS.

    It minimises the mean cross-entropy plus ||W||² / (2 · strength · n). A multi-label classifier
    has one binary regression for each label.
    """

    kind: Literal["logistic"] = "logistic"
    strength: Positive = 30.0  # scikit-learn's C, for standardised vectors of length 1 on average
    iterations: Count = 60  # maximum of L-BFGS steps


@section
class FeedForward:
    """The paper's feed-forward network on frozen encodings (CONVERT, section 4.3)."""

    kind: Literal["feed-forward"] = "feed-forward"
    hidden_size: Count = 512
    hidden_layers: Annotated[int, Field(ge=0, le=8)] = 1  # with ReLU; 0: a linear classifier
    input_dropout: Decay = 0.5  # dropout of the encodings
    hidden_dropout: Decay = 0.5  # dropout after each hidden layer
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: Positive = 0.75  # learning rate of the first step
    decay: Literal["constant", "linear"] = "constant"
    """Linear: the learning rate falls to 0 over all epochs."""
    batch_size: Count = 32  # texts per step
    epochs: Count = 120  # maximum; with replacement, as many steps as this number of passes takes
    sampling: Literal["pass", "replacement"] = "pass"
    """Every text once an epoch, or drawn with replacement."""
    patience: Natural = 5
    """Epochs without a lower held-out loss before training ends; the best network is kept. 0: all
    epochs, no held-out texts, and the last network is kept."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of each intent's training texts to hold out if there are no validation texts: at least
    one, never all."""


Settings: TypeAlias = Logistic | FeedForward
SETTINGS: Any = Annotated[Settings, Field(discriminator="kind")]

# Logistic regression; the paper's network with SGD; the setting in the authors' released code.
PRESETS: Mapping[str, Settings] = {
    "logistic": Logistic(),
    "paper": FeedForward(),
    "original": FeedForward(
        input_dropout=0.75,
        hidden_dropout=0.0,
        learning_rate=0.7,
        decay="linear",
        sampling="replacement",
        patience=0,
    ),
}


def parse_settings(preset: str = "logistic", changes: Sequence[str] = ()) -> Settings:
    """Return a preset with some of its settings changed, such as "hidden_size=256"."""
    if preset == "logistic":
        sklearn("linear_model")  # fail before the (slow) encoding
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
    """Vectors (n, d) of texts, and targets (n, K), 1 where a text has a label.

    A row has one label unless `multi_label`.
    """

    vectors: FloatArray
    targets: FloatArray
    multi_label: bool = False
    seconds: float = 0.0  # seconds of encoding the whole set that these rows come from

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
    """Linear layers of `sizes` d, ..., K, (n, d) -> (n, K).

    Dropout precedes each layer, and ReLU stands between layers.
    """

    def __init__(
        self, sizes: Sequence[int], input_dropout: float = 0.0, hidden_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.input_dropout = input_dropout
        self.hidden_dropout = hidden_dropout

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

        They are computed in float64: in float32 a text's last digits depend on the other texts of
        its batch.
        """
        was_training = self.training
        _ = self.eval()
        exact = {name: parameter.double() for name, parameter in self.named_parameters()}
        result = torch.func.functional_call(
            self, exact, torch.from_numpy(vectors.astype(np.float64))
        )
        self.train(was_training)
        return result.float().numpy()


def head_from(tensors: Mapping[str, Tensor]) -> Head:
    """Return the head with this `state_dict`; a wrong one is an InputError."""
    try:
        weights = [tensors[f"layers.{number}.weight"] for number in range(len(tensors) // 2)]
        head = Head([weights[0].shape[1], *(len(weight) for weight in weights)])
        head.load_state_dict(dict(tensors))
    except (KeyError, IndexError, RuntimeError):
        raise InputError(
            "the classifier's weights do not fit a feed-forward network; copy its folder again"
        ) from None
    return head.eval()


@dataclasses.dataclass(frozen=True)
class Centroids:
    """Mean of all training vectors (d,), and directions to the intents' means (K, d).

    The directions are unit vectors.
    """

    mean: FloatArray
    directions: FloatArray

    @classmethod
    def of(cls, data: Encoded) -> Centroids:
        """Return the centroids of encoded training texts."""
        mean = data.vectors.mean(axis=0)
        return cls(mean, unit_rows(data.targets.T @ (data.vectors - mean)))

    def distances(self, vectors: FloatArray) -> FloatArray:
        """Return the distances (n,) of unit vectors (n, d) to the nearest centroid's direction."""
        nearest: FloatArray = (unit_rows(vectors - self.mean) @ self.directions.T).max(axis=1)
        return 1 - nearest


class Fitted(NamedTuple):
    """A trained head with the centroids of its texts, and facts about its training."""

    head: Head
    centroids: Centroids
    epochs: int  # or steps of L-BFGS
    validation: float | None = None  # accuracy on the validation texts, if any


def fit(
    settings: Settings, data: Encoded, *, valid: Encoded | None = None, seed: int = 0
) -> Fitted:
    """Train a head.

    Without `valid`, a part of `data` is held out if the settings ask for early stopping.
    """
    centroids = Centroids.of(data)
    if isinstance(settings, Logistic):
        head, steps = _fit_logistic(settings, data)
        return Fitted(head, centroids, steps)
    if settings.patience and valid is None:
        data, valid = split_validation(data, settings.held_out, seed)
    head, epochs = _fit_network(settings, data, valid if settings.patience else None, seed)
    return Fitted(
        head, centroids, epochs, accuracy(head, valid) if settings.patience and valid else None
    )


def cross_validate(
    settings: Settings,
    data: Encoded,
    oos_vectors: FloatArray | None = None,
    *,
    seed: int = 0,
    advance: Advance = silent,
) -> HeldOut:
    """Train without each of `FOLDS` folds and score that fold.

    One head scores each text out of scope.
    """
    if len(data) < FOLDS:
        raise InputError(f"{len(data)} texts cannot be split into {FOLDS} folds; give more texts")
    if oos_vectors is None:
        oos_vectors = np.empty((0, data.vectors.shape[1]), dtype=np.float32)
    fold = folds_of(data.classes, seed)
    oos_fold = np.arange(len(oos_vectors)) % FOLDS
    result = HeldOut(
        logits=np.empty(data.targets.shape, dtype=np.float32),
        scores=np.empty((len(data), len(SCORES))),
        oos_scores=np.empty((len(oos_vectors), len(SCORES))),
    )
    for number in range(FOLDS):
        inside = fold == number
        outside = oos_fold == number
        fitted = fit(settings, data.rows(np.flatnonzero(~inside)), seed=seed)
        part = held_out(fitted.head, fitted.centroids, data.vectors[inside], oos_vectors[outside])
        result.logits[inside] = part.logits
        result.scores[inside] = part.scores
        result.oos_scores[outside] = part.oos_scores
        advance(1)
    return result


def held_out(
    head: Head, centroids: Centroids, vectors: FloatArray, oos_vectors: FloatArray
) -> HeldOut:
    """Return a head's outputs for vectors in scope (n, d) and out of scope (m, d)."""
    logits = head.logits(vectors)
    inside = scores(logits, centroids.distances(vectors))
    outside = scores(head.logits(oos_vectors), centroids.distances(oos_vectors))
    return HeldOut(logits, inside, outside)


def folds_of(classes: IntArray, seed: int) -> IntArray:
    """Return the fold of each text, (n,).

    Each class, and all texts, are spread as evenly as possible.
    """
    # scikit-learn's stratified folds refuse data in which every class has fewer texts than folds.
    counts = np.bincount(classes)
    return ((np.cumsum(counts) - counts)[classes] + shuffled_ranks(classes, seed)) % FOLDS


def accuracy(head: Head, data: Encoded) -> float:
    """Return the share of texts whose label, or exact set of labels, is predicted."""
    logits = head.logits(data.vectors)
    if data.multi_label:
        return float(((logits > 0) == (data.targets > 0)).all(axis=1).mean())
    return float((logits.argmax(axis=1) == data.classes).mean())


def split_validation(data: Encoded, share: float, seed: int) -> tuple[Encoded, Encoded]:
    """Split texts: `share` of each intent for validation, at least one text, never all."""
    # scikit-learn's stratified splits refuse an intent with one text, and fewer validation texts
    # than intents.
    counts = np.bincount(data.classes, minlength=data.targets.shape[1])
    wanted = np.minimum(np.maximum(np.round(share * counts), 1), counts - 1)
    is_valid = shuffled_ranks(data.classes, seed) < wanted[data.classes]
    if not is_valid.any():
        raise InputError(
            "every intent has one text, so none can be held out for early stopping; set patience=0"
        )
    return data.rows(np.flatnonzero(~is_valid)), data.rows(np.flatnonzero(is_valid))


def _fit_logistic(settings: Logistic, data: Encoded) -> tuple[Head, int]:
    """Fit to standardised vectors.

    Standardising is linear, so it is folded into the weights afterwards.
    """
    size = data.vectors.shape[1]
    labels = data.targets.shape[1]
    mean = data.vectors.mean(axis=0)
    spread = data.vectors.std(axis=0)
    # Variance 1/d each, for rows of length 1 on average. Constant components carry
    # no information: factor 0.
    varies = spread > 1e-4 * max(float(spread.max()), 1e-12)
    factor = np.where(varies, 1 / np.where(varies, spread * np.sqrt(size), 1), 0).astype(np.float32)
    x = (data.vectors - mean) * factor
    weight = np.zeros((labels, size))
    bias = np.full(labels, NEVER)
    steps = 0

    def regression(answers: Any, strength: float) -> tuple[FloatArray, FloatArray]:
        nonlocal steps
        model = sklearn("linear_model").LogisticRegression(C=strength, max_iter=settings.iterations)
        # ignore warnings about the iteration limit and few texts
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(x, answers)
        steps = max(steps, int(model.n_iter_.max()))
        return model.coef_, model.intercept_

    if data.multi_label:
        for k, answers in enumerate(data.targets.T > 0):
            if answers.all():
                bias[k] = -NEVER
            elif answers.any():
                weight[[k]], bias[[k]] = regression(answers, settings.strength)
    else:
        known = np.unique(data.classes)
        if len(known) > 2:
            weight[known], bias[known] = regression(data.classes, settings.strength)
        elif len(known) == 2:
            # scikit-learn's has one row w for two classes; with rows -w/2, w/2 the penalty is half
            w, b = regression(data.classes, 2 * settings.strength)
            weight[known] = np.vstack([-w, w]) / 2
            bias[known] = np.hstack([-b, b]) / 2
        else:
            bias[known] = 0.0
    weight *= factor
    tensors = {"layers.0.weight": weight, "layers.0.bias": bias - weight @ mean}
    return head_from(
        {name: torch.from_numpy(value).float() for name, value in tensors.items()}
    ), steps


def _fit_network(
    settings: FeedForward, data: Encoded, valid: Encoded | None, seed: int
) -> tuple[Head, int]:
    """Return the network and the number of epochs; with `valid`, the best epoch's network."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.from_numpy(data.vectors)
    targets = torch.from_numpy(data.targets)
    sizes = [x.shape[1], *[settings.hidden_size] * settings.hidden_layers, targets.shape[1]]
    steps = -(-len(x) // settings.batch_size)
    # Initial weights and dropout use torch's global generator, whose state is restored for
    # callers.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = Head(sizes, settings.input_dropout, settings.hidden_dropout).train()
        kind: Any = torch.optim.SGD if settings.optimizer == "sgd" else torch.optim.Adam
        optimizer = kind(head.parameters(), lr=settings.learning_rate)
        best_loss = float("inf")
        best_weights = head.state_dict()
        best_epoch = epoch = 0
        for epoch in range(1, settings.epochs + 1):
            if settings.sampling == "replacement":
                order = torch.randint(len(x), (steps * settings.batch_size,), generator=generator)
            else:
                order = torch.randperm(len(x), generator=generator)
            for step, rows in enumerate(
                torch.split(order, settings.batch_size), (epoch - 1) * steps
            ):
                if settings.decay == "linear":
                    optimizer.param_groups[0]["lr"] = settings.learning_rate * (
                        1 - step / (steps * settings.epochs)
                    )
                optimizer.zero_grad()
                _loss(head(x[rows]), targets[rows], data.multi_label).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            if valid is None:
                continue
            # By loss, which is far finer than accuracy on few held-out texts.
            logits = torch.from_numpy(head.logits(valid.vectors))
            loss = float(_loss(logits, torch.from_numpy(valid.targets), valid.multi_label))
            if loss < best_loss:
                best_loss = loss
                best_epoch = epoch
                best_weights = copy.deepcopy(head.state_dict())
            elif epoch - best_epoch >= settings.patience:
                break
    if valid is not None:
        head.load_state_dict(best_weights)
    return head.eval(), epoch


def _loss(logits: Tensor, targets: Tensor, multi_label: bool) -> Tensor:
    """Return the mean cross-entropy.

    For a multi-label classifier, sum the binary cross-entropies of the labels.
    """
    if multi_label:
        return nn.functional.binary_cross_entropy_with_logits(
            logits, targets, reduction="sum"
        ) / len(logits)
    return nn.functional.cross_entropy(logits, targets)
