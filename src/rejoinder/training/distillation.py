"""Distillation (Hinton et al. 2015): a model learns to score candidates of each batch as a better, slower one does.

The teacher is any ranker, mostly a cross- or poly-encoder. It reads texts, not the student's tokens, so the two need
not share a tokenizer.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rejoinder.errors import InputError
from rejoinder.models import persistence
from rejoinder.models.layers import Encodings
from rejoinder.models.reductions import own_scores
from rejoinder.ranker import Ranker
from rejoinder.training.batches import StepBatch
from rejoinder.training.losses import Loss
from rejoinder.training.recipe import Distillation
from rejoinder.training.similarity import blended
from rejoinder.training.tokens import Rows, TokenStore

CANDIDATES = 16
"""Candidates that are compared where the recipe gives no number."""


class Distiller:
    """The teacher of a run.

    For each context i of a batch of K pairs the candidates are its own response and the next C - 1 of the batch, and

        L = (1 - a) · L_ranking + a · t² · 1/K Σ_i KL( softmax(T_i / t) || softmax(S_i / t) )

    with the teacher's scores T and the student's scores S (its factor c included), and the temperature t. Equal
    responses get equal scores of both, so they need no mask.

    Args:
        config: the recipe's.
        store: the training examples, with their texts.

    Raises:
        InputError: there is no such teacher, or another one than when the recipe was read.
    """

    def __init__(self, config: Distillation, store: TokenStore) -> None:
        assert store.texts is not None  # `prepare` keeps them for a teacher
        self.config, self._texts = config, store.texts
        teacher = persistence.load(config.teacher)
        if teacher.fingerprint != config.fingerprint:
            raise InputError(f"distillation.teacher: {config.teacher} was replaced since the recipe was read")
        self._teacher: Ranker = teacher

    def __call__(self, batch: StepBatch) -> Tensor:
        """The teacher's scores of the candidates of this process's contexts: (k, C)."""
        columns = self.columns(batch)
        own = batch.rows[batch.first : batch.first + len(columns)]
        contexts = [context for context, _ in self._texts.read(own)]
        wanted = np.unique(columns)
        responses = dict(zip(wanted.tolist(), (r for _, r in self._texts.read(batch.rows[wanted])), strict=True))
        candidates = [[responses[column] for column in row] for row in columns.tolist()]
        return torch.from_numpy(self._teacher.score(contexts, candidates))

    def columns(self, batch: StepBatch) -> Rows:
        """Numbers of the candidates among the K responses of the batch, the right one first: (k, C)."""
        count = min(self.config.candidates or CANDIDATES, batch.pairs)
        contexts = sum(part.pairs for part in batch.parts)
        return (batch.first + np.arange(contexts)[:, None] + np.arange(count)) % batch.pairs

    def add(self, loss: Loss, batch: StepBatch, encodings: Encodings, scale: float | Tensor, taught: Tensor) -> Loss:
        """The loss with the teacher's part.

        Args:
            loss: the ranking loss.
            batch: the step's.
            encodings: contexts of this process, and all responses.
            scale: factor of the student's scores.
            taught: what `__call__` gave.
        """
        contexts, responses = encodings["context"].float(), encodings["response"].float()
        columns = torch.from_numpy(self.columns(batch)).to(responses.device)
        return blended(loss, own_scores(contexts, responses[columns]) * scale, taught, batch.pairs, self.config)
