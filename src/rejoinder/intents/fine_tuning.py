"""Fine-tuning of the encoder on intents.

Texts of one intent move together, texts of different intents apart. Each step draws different
intents and two texts of each. The in-batch loss for responses ranks the partner of every first text
among all partners by cosine. No negative has the same intent. (Such pairs: Vulić et al. 2021,
"ConvFiT", with other losses; Tunstall et al. 2022, "SetFit".)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import nn

from rejoinder.arrays import IntArray
from rejoinder.encoders import folders, joined, persistence
from rejoinder.encoders.export import folder as export
from rejoinder.encoders.families import check_texts
from rejoinder.encoders.open import is_library
from rejoinder.errors import InputError, RejoinderError
from rejoinder.folder_kinds import check_replaceable
from rejoinder.intents.data import IntentData
from rejoinder.networks.convert import Convert
from rejoinder.networks.layers import set_dropout
from rejoinder.networks.packing import pack
from rejoinder.progress import Advance, counted, silent
from rejoinder.settings import Count, Decay, Positive, section
from rejoinder.text.tokenizer import encode_messages
from rejoinder.training.recipe.losses import InBatchLoss


@section
class FineTuning:
    """Settings of fine-tuning."""

    steps: Count = 200
    intents: Annotated[int, Field(ge=2)] = 128  # maximum per step, each with two texts
    vectors: Literal["r", "h"] = "r"
    """The compared vector: r, which the classifier reads, or h of a context."""
    learning_rate: Positive = 1e-4  # learning rate of AdamW, falling linearly to 0
    embedding_rate: Positive = 10.0  # factor of the learning rate for the subword embeddings
    scale: Positive = 16.0  # factor of the cosine
    dropout: Decay = 0.2  # after embedding and self-attention


@dataclass(frozen=True)
class FineTuned:
    """Results of fine-tuning; losses are means over the first and the last tenth of the steps."""

    model: str
    steps: int
    first_loss: float
    last_loss: float


def fine_tune(
    model: str | Path,
    data: IntentData,
    output: str | Path,
    settings: FineTuning | None = None,
    seed: int = 0,
    advance: Advance = silent,
    overwrite: bool = False,
) -> FineTuned:
    """Fine-tune a Rejoinder model and write it as a model folder.

    It is a model folder, a name such as bi-small, or an id on the Hub.
    """
    settings = settings or FineTuning()
    check_replaceable(output, folders.FOLDER, overwrite=overwrite)
    if is_library(model):
        raise InputError(
            f"{model} is an encoder of another library; fine-tuning takes a Rejoinder model: a"
            " model folder, a name such as bi-small, a part of a joined model such as"
            " bi-base/first, or an id on the Hugging Face Hub (owner/name)"
        )
    folder = folders.find(model)
    if persistence.read_config(folder)[1]["model"].get("kind") == joined.KIND:
        joined.refuse(name=str(model))
    if folder.resolve() == Path(output).resolve():
        raise InputError(
            f"{output} is the model to start from; name another folder for the fine-tuned one"
        )
    groups = _groups(data)
    with torch.random.fork_rng(devices=[]):  # leaves torch's random state unchanged
        module, tokenizer, config = persistence.load_module(folder)
        check_texts(str(model), module.config.kind)
        set_dropout(module, settings.dropout)
        torch.manual_seed(seed)
        generator = np.random.default_rng(seed)
        loss = InBatchLoss(0.0)
        losses = []
        optimizer = _optimizer(module, settings)
        decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / settings.steps)
        module.train()
        for step in range(settings.steps):
            first, second = draw_pairs(groups, settings.intents, generator)
            texts = [data.texts[i] for i in np.concatenate([first, second])]
            ids, lengths = encode_messages(tokenizer, texts, config["max_length"])
            side = "reduction" if settings.vectors == "r" else "context"
            vectors = module.encode(pack(ids, lengths, tokenizer.padding_id), side)
            vectors = nn.functional.normalize(vectors.float(), dim=1)
            value = loss(vectors[: len(first)], vectors[len(first) :], settings.scale).value
            if not torch.isfinite(value):
                raise RejoinderError(
                    f"the loss is {value.item()} at step {step}; lower learning_rate"
                )
            optimizer.zero_grad()
            value.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            decay.step()
            losses.append(value.item())
            advance(1)
        module.eval()
    card = export.read_card(folder) + _card(data, settings)
    persistence.save(
        output,
        module,
        tokenizer,
        max_length=config["max_length"],
        card=card,
        scale=config.get("scale"),
        overwrite=overwrite,
    )
    tenth = max(1, len(losses) // 10)
    return FineTuned(
        str(output), len(losses), float(np.mean(losses[:tenth])), float(np.mean(losses[-tenth:]))
    )


def _card(data: IntentData, settings: FineTuning) -> str:
    return (
        "\n\n## Fine-tuned on intents\n\n"
        f"{counted(len(data), 'text')} of {counted(len(data.names), 'intent')},"
        f" {counted(settings.steps, 'step')};"
        f" {settings.vectors} of texts with the same intent were drawn together.\n"
    )


def draw_pairs(
    groups: Sequence[IntArray], intents: int, generator: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Draw up to `intents` different intents, with two texts of each.

    Return the positions of the first texts and of the second.
    """
    chosen = generator.permutation(len(groups))[:intents]
    first, second = np.array(
        [generator.choice(groups[i], 2, replace=False) for i in chosen], dtype=np.int64
    ).T
    return first, second


def _groups(data: IntentData) -> list[IntArray]:
    """Return the positions of the texts of each intent that has two or more."""
    if any(len(labels) != 1 for labels in data.labels):
        raise InputError(
            "fine-tuning pairs texts of the same intent, so a text must have one intent"
        )
    classes = data.classes
    groups = [np.flatnonzero(classes == number) for number in range(len(data.names))]
    paired = [rows for rows in groups if len(rows) > 1]
    if len(paired) < 2:
        raise InputError(
            f"{len(paired)} of {len(groups)} intents have two texts; fine-tuning needs two"
            " such intents"
        )
    return paired


def _optimizer(module: Convert, settings: FineTuning) -> torch.optim.Optimizer:
    rates = {"embedding": settings.learning_rate * settings.embedding_rate}
    groups = [
        {
            "params": [p for p in group if p.requires_grad],
            "lr": rates.get(name, settings.learning_rate),
        }
        for name, group in module.parameter_groups().items()
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], weight_decay=0.0)
