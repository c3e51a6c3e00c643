"""A BERT fine-tuned with a classifier on its first output, [CLS] (CONVERT, section 4.3).

All weights are trained, as Devlin and others, "BERT" (2019), section 4.1, do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rejoinder.devices import find_device
from rejoinder.encoders.export.checkpoints import find_checkpoint
from rejoinder.errors import InputError, RejoinderError, import_extra
from rejoinder.evaluation.bootstrap import Estimate, estimates
from rejoinder.files import atomic_folder
from rejoinder.folder_kinds import Kind
from rejoinder.intents.data import IntentData
from rejoinder.intents.refusal import BoolArray
from rejoinder.progress import Track, no_track
from rejoinder.settings import Count, Decay, Natural, Positive, Share, section

KIND = "rejoinder BERT of intents"
RESULT = "result.json"
FILES = (
    RESULT,
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
)
FOLDER = Kind("a BERT of intents", RESULT, lambda result: result["kind"] == KIND, FILES)


@section
class BertSettings:
    """Settings of the training; the defaults are of the values that Devlin and others recommend."""

    epochs: Count = 4  # at most; the best by validation texts is kept, if there are any
    batch_size: Count = 32
    learning_rate: Positive = 2e-5  # of AdamW, falling linearly to 0
    warm_up: Share = 0.1  # share of the steps in which the learning rate rises
    weight_decay: Decay = 0.01
    max_length: Count = 128  # tokens of a text
    seed: Natural = 0


@dataclass(frozen=True)
class BertResult:
    """Accuracy on test texts, and the cost of the training."""

    accuracy: Estimate
    texts: int
    intents: int
    epoch: int  # that was kept, from 1
    valid_accuracy: float | None
    seconds: float  # of the training


def fine_tune_bert(
    checkpoint: str,
    train: IntentData,
    valid: IntentData | None,
    test: IntentData,
    output: Path,
    settings: BertSettings | None = None,
    *,
    device: str = "auto",
    track: Track = no_track,
    overwrite: bool = False,
) -> BertResult:
    """Fine-tune a checkpoint on training texts, and write it as `transformers` does.

    `checkpoint` is a folder with weights and tokenizer, or its id on the Hugging Face Hub. Of
    several epochs the one with the best accuracy on the validation texts is kept.

    Raises:
        InputError: there is no such checkpoint, or a test text has an intent of no training text.
    """
    settings = settings or BertSettings()
    library = import_extra("transformers", "a BERT", "bert")
    names = train.names
    if unknown := sorted({*test.names, *(valid.names if valid else ())} - {*names}):
        raise InputError(
            f"no training text has the intent '{unknown[0]}'; add some, or leave it out"
        )
    folder = find_checkpoint(checkpoint)
    torch_device = find_device(device)
    with torch.random.fork_rng(devices=[]):  # leaves torch's random state unchanged
        torch.manual_seed(settings.seed)
        tokenizer = library.AutoTokenizer.from_pretrained(folder)
        model = library.AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=len(names), id2label=dict(enumerate(names))
        ).to(torch_device)
        bert = _Classifier(model, tokenizer, names, settings, torch_device)
        started = time.perf_counter()
        epoch, valid_accuracy = _train(bert, train, valid, settings, library, track)
        seconds = time.perf_counter() - started
    right = bert.right(test)
    accuracy = estimates(right[:, None].astype(np.float64), np.arange(len(right)))[0]
    result = BertResult(accuracy, len(right), len(names), epoch, valid_accuracy, seconds)
    with atomic_folder(output, FOLDER, overwrite=overwrite) as part:
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
        values = {"kind": KIND, "accuracy": accuracy.value, "texts": len(right)}
        (part / RESULT).write_text(json.dumps(values) + "\n", encoding="utf-8")
    return result


class _Classifier:
    """A model of `transformers` that predicts intents of texts."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        names: Sequence[str],
        settings: BertSettings,
        device: torch.device,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.names = names
        self.settings = settings
        self.device = device

    def logits(self, texts: Sequence[str]) -> torch.Tensor:
        """Return the logits (n, K) of a batch of texts."""
        longest = min(self.settings.max_length, self.model.config.max_position_embeddings)
        batch = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=longest, return_tensors="pt"
        )
        logits: torch.Tensor = self.model(**batch.to(self.device)).logits
        return logits

    def classes(self, data: IntentData) -> torch.Tensor:
        """Return the number of each text's intent, (n,)."""
        numbers = {name: number for number, name in enumerate(self.names)}
        return torch.tensor([numbers[name] for (name,) in data.labels], device=self.device)

    def right(self, data: IntentData) -> BoolArray:
        """Return whether each text gets its intent, (n,)."""
        self.model.eval()
        predicted = []
        with torch.inference_mode():
            for start in range(0, len(data), self.settings.batch_size):
                texts = data.texts[start : start + self.settings.batch_size]
                predicted.append(self.logits(texts).argmax(dim=1))
        right: BoolArray = (torch.cat(predicted) == self.classes(data)).cpu().numpy()
        return right


def _train(
    bert: _Classifier,
    train: IntentData,
    valid: IntentData | None,
    settings: BertSettings,
    library: Any,
    track: Track,
) -> tuple[int, float | None]:
    """Train a model; return the epoch whose weights it has, and their validation accuracy."""
    model = bert.model
    classes = bert.classes(train)
    per_epoch = -(-len(train) // settings.batch_size)
    steps = settings.epochs * per_epoch
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    schedule = library.get_linear_schedule_with_warmup(
        optimizer, round(settings.warm_up * steps), steps
    )
    best = (settings.epochs, None) if valid is None else (0, -1.0)
    kept: dict[str, torch.Tensor] = {}
    with track("Fine-tuning", steps, "steps") as advance:
        for epoch in range(1, settings.epochs + 1):
            model.train()
            for rows in torch.split(torch.randperm(len(train)), settings.batch_size):
                logits = bert.logits([train.texts[row] for row in rows.tolist()])
                loss = torch.nn.functional.cross_entropy(logits, classes[rows.to(bert.device)])
                if not torch.isfinite(loss):
                    raise RejoinderError(f"the loss is {loss.item()}; lower learning_rate")
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                advance(1)
            if valid is None:
                continue
            share = float(bert.right(valid).mean())
            if best[1] is None or share > best[1]:
                best = (epoch, share)
                kept = {name: value.clone() for name, value in model.state_dict().items()}
    if kept:
        model.load_state_dict(kept)
    return best
