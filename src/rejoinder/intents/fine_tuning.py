"""Fine-tuning the encoder itself on intents: texts of one intent together, those of different intents apart.

Each step draws intents, all different, and two texts of each; of every first text its partner is to be told from the
partners of the others by the cosine, with the in-batch loss that ranks responses. As no intent is twice in a batch, no
negative is a text of the same intent. (Two-stage fine-tuning with such pairs: Vulić et al. 2021, "ConvFiT", with other
losses; Tunstall et al. 2022, "SetFit".) The classifier is trained afterwards, on the encoder as it came out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass as checked_dataclass
from torch import Tensor, nn

from rejoinder.errors import InputError, RejoinderError
from rejoinder.files import check_replaceable
from rejoinder.intents.data import IntentData
from rejoinder.intents.settings import STRICT, Count, Positive, parse_changes
from rejoinder.models import persistence
from rejoinder.models.convert import Convert, set_dropout
from rejoinder.models.packing import pack
from rejoinder.text.subwords import Subwords
from rejoinder.training.losses import InBatchLoss

IntArray = npt.NDArray[np.int64]


@checked_dataclass(frozen=True, kw_only=True, config=STRICT)
class FineTuning:
    """How the encoder is fine-tuned."""

    steps: Count = 200
    """Steps."""
    intents: Annotated[int, Field(ge=2)] = 128
    """Intents of a step at most, each with two texts."""
    vectors: Literal["r", "h"] = "r"
    """Which vectors are compared: r, which the classifier reads, or h of a context."""
    learning_rate: Positive = 1e-4
    """Of AdamW, falling linearly to 0."""
    embedding_rate: Positive = 10.0
    """Factor of the learning rate for the subword embeddings."""
    scale: Positive = 16.0
    """Factor of the cosine."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Dropout after embedding and self-attention."""


_adapter = TypeAdapter(FineTuning)


def parse_fine_tuning(changes: Sequence[str] = ()) -> FineTuning:
    """The default settings with some changed, such as "steps=100".

    Raises:
        InputError: names the setting, what was given and what is allowed.
    """
    return parse_changes(FineTuning(), changes, _adapter)


@dataclass(frozen=True)
class FineTuned:
    """What fine-tuning did: where the model is, and the mean loss of the first and the last tenth of the steps."""

    model: str
    steps: int
    first_loss: float
    last_loss: float


def fine_tune(
    model: str | Path,
    data: IntentData,
    output: str | Path,
    *,
    settings: FineTuning | None = None,
    seed: int = 0,
    advance: Callable[[int], None] | None = None,
    overwrite: bool = False,
) -> FineTuned:
    """Fine-tune a model of ours and write it as a model folder.

    Args:
        model: a model folder in full precision, or the id of one on the Hugging Face Hub.
        data: texts with one intent each; two intents at least must have two texts.
        output: the folder to write.
        settings: how.
        seed: of the draws and of dropout.
        advance: called with 1 after each step.
        overwrite: replace an earlier model folder.

    Raises:
        InputError: the model cannot be trained, the data has too few texts, or the output is something else.
        RejoinderError: the loss is no longer a finite number.
    """
    settings = settings or FineTuning()
    check_replaceable(output, persistence.FOLDER, overwrite=overwrite)
    folder = persistence.find(model)
    if folder.resolve() == Path(output).resolve():
        raise InputError(f"{output} is the model to start from; name another folder for the fine-tuned one")
    groups = _groups(data)
    with torch.random.fork_rng(devices=[]):  # torch's own state stays as it was for everybody else
        module, tokenizer, config = persistence.load_module(folder)
        set_dropout(module, settings.dropout)
        torch.manual_seed(seed)
        losses = _train(module, tokenizer, config["max_length"], data.texts, groups, settings, seed, advance)
    tenth = max(1, len(losses) // 10)
    result = FineTuned(
        str(output), len(losses), float(np.mean(losses[:tenth])), float(np.mean(losses[-tenth:]))
    )
    persistence.save(
        output,
        module,
        tokenizer,
        max_length=config["max_length"],
        card=persistence.read_card(folder) + _card(data, settings),
        overwrite=overwrite,
    )
    return result


def _groups(data: IntentData) -> list[IntArray]:
    """Numbers of the texts of each intent that has two or more."""
    if any(len(labels) != 1 for labels in data.labels):
        raise InputError("fine-tuning pairs texts of the same intent, so a text must have one intent")
    by_name: dict[str, list[int]] = {}
    for row, (name,) in enumerate(data.labels):
        by_name.setdefault(name, []).append(row)
    groups = [np.array(rows, dtype=np.int64) for _, rows in sorted(by_name.items()) if len(rows) > 1]
    if len(groups) < 2:
        raise InputError(f"{len(groups)} of {len(by_name)} intents have two texts; two are needed to fine-tune")
    return groups


def draw_pairs(groups: Sequence[IntArray], intents: int, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Two different texts of each of at most `intents` different intents: numbers of the first ones, of the second."""
    chosen = generator.permutation(len(groups))[:intents]
    pairs = [generator.choice(groups[i], 2, replace=False) for i in chosen]
    first, second = np.array(pairs, dtype=np.int64).T
    return first, second


def _train(
    module: Convert,
    tokenizer: Subwords,
    max_length: int,
    texts: Sequence[str],
    groups: Sequence[IntArray],
    settings: FineTuning,
    seed: int,
    advance: Callable[[int], None] | None,
) -> list[float]:
    """The loss of each step."""
    optimizer, loss, generator = _optimizer(module, settings), InBatchLoss(0.0), np.random.default_rng(seed)
    module.train()
    side = "reduction" if settings.vectors == "r" else "context"
    losses = []
    for step in range(settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = group["first_rate"] * (1 - step / settings.steps)
        first, second = draw_pairs(groups, settings.intents, generator)
        rows = np.concatenate([first, second]).tolist()
        ids, lengths = tokenizer.encode_ragged([texts[i] for i in rows], max_length)
        vectors = nn.functional.normalize(module.encode(pack(ids, lengths, tokenizer.padding_id), side).float(), dim=1)
        value: Tensor = loss(vectors[: len(first)], vectors[len(first) :], settings.scale).value
        if not torch.isfinite(value):
            raise RejoinderError(f"the loss is {value.item()} at step {step}; lower learning_rate")
        optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        losses.append(value.item())
        if advance is not None:
            advance(1)
    module.eval()
    return losses


def _optimizer(module: Convert, settings: FineTuning) -> Any:
    groups = []
    for name, parameters in module.parameter_groups().items():
        rate = settings.learning_rate * (settings.embedding_rate if name == "embedding" else 1.0)
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        if trained:
            groups.append({"params": trained, "lr": rate, "first_rate": rate})
    return torch.optim.AdamW(groups, weight_decay=0.0)


def _card(data: IntentData, settings: FineTuning) -> str:
    return (
        f"\n\n## Fine-tuned on intents\n\n{len(data):,} texts of {len(data.names)} intents, {settings.steps} steps; "
        f"{settings.vectors} of texts with the same intent were drawn together.\n"
    )
