"""Distillation (Hinton et al. 2015): a model learns to score candidates of each batch as a better, slower one does.

With the teacher's scores T and the student's scores S (its factor c included) of the candidates of K contexts:

    L = (1 - a) · L_ranking + a · 1/K Σ_i KL( softmax(T_i) || softmax(S_i) )

The teacher reads texts, not the student's tokens, so the two need not share a tokenizer.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rejoinder.arrays import unit_rows
from rejoinder.baselines.encoders import EncodeTexts
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.models import persistence
from rejoinder.models.layers import Encodings
from rejoinder.models.reductions import own_scores, scores_of
from rejoinder.ranker import FloatArray
from rejoinder.training.batches import StepBatch
from rejoinder.training.display import Display
from rejoinder.training.losses import Loss
from rejoinder.training.recipe import Distillation
from rejoinder.training.tokens import RawExamples, Rows, TokenStore

CANDIDATES = 16  # that a teacher compares where the recipe gives no number
SHARPNESS = 20.0  # of a sentence encoder's cosines where the recipe gives none: sentence-transformers trains with it
CHUNK = 8192  # texts that are encoded between two notes of how far it has come


class Distiller(ABC):
    """The teacher of a run."""

    share: float

    @abstractmethod
    def __call__(self, batch: StepBatch) -> Tensor:
        """Return the teacher's scores of the candidates of this process's contexts: (k, C)."""

    @abstractmethod
    def student_scores(self, batch: StepBatch, encodings: Encodings) -> tuple[Tensor, int]:
        """Return the cosines of the same candidates, (k, C), and the number of contexts in all processes."""

    def add(self, loss: Loss, batch: StepBatch, encodings: Encodings, scale: float | Tensor, taught: Tensor) -> Loss:
        """Return the ranking loss with the teacher's part, given its scores `taught`."""
        student, pairs = self.student_scores(batch, encodings)
        found = torch.log_softmax(student * scale, dim=1)
        wanted = torch.log_softmax(taught.to(found.device), dim=1)
        divergence = (wanted.exp() * (wanted - found)).sum() / pairs
        figures = {**loss.figures, "loss_ranking": loss.value.detach(), "loss_distillation": divergence.detach()}
        return Loss((1 - self.share) * loss.value + self.share * divergence, loss.accuracy, figures)


class TeacherDistiller(Distiller):
    """A ranker, mostly a cross- or poly-encoder: it compares the response of each context and the next C - 1."""

    def __init__(self, config: Distillation, store: TokenStore) -> None:
        assert store.texts is not None  # `prepare` keeps them for a teacher
        self.share, self._candidates = config.share, config.candidates or CANDIDATES
        self._texts, self._teacher = store.texts, persistence.load(config.teacher)
        if self._teacher.fingerprint != config.fingerprint:
            raise InputError(f"distillation.teacher: {config.teacher} was replaced since the recipe was read")

    def __call__(self, batch: StepBatch) -> Tensor:  # noqa: D102
        columns = self.columns(batch)
        contexts = [context for context, _ in self._texts.read(batch.rows[columns[:, 0]])]
        wanted = np.unique(columns)
        responses = dict(zip(wanted.tolist(), (r for _, r in self._texts.read(batch.rows[wanted])), strict=True))
        candidates = [[responses[column] for column in row] for row in columns.tolist()]
        return torch.from_numpy(self._teacher.score(contexts, candidates))

    def student_scores(self, batch: StepBatch, encodings: Encodings) -> tuple[Tensor, int]:  # noqa: D102
        contexts, responses = encodings["context"].float(), encodings["response"].float()
        columns = torch.from_numpy(self.columns(batch)).to(responses.device)
        return own_scores(contexts, responses[columns]), batch.pairs

    def columns(self, batch: StepBatch) -> Rows:
        """Return the numbers of the candidates among the K responses of the batch, the right one first: (k, C)."""
        contexts = sum(part.pairs for part in batch.parts)
        numbers = np.arange(min(self._candidates, batch.pairs))
        return (batch.first + np.arange(contexts)[:, None] + numbers) % batch.pairs


@dataclass(frozen=True, slots=True)
class TextVectors:
    """What a sentence encoder makes of the newest messages and the responses of all examples."""

    vectors: npt.NDArray[np.float16]  # of each distinct text, of unit length (t, d)
    inputs: Rows  # the text of each example's newest message (n,); -1 where the encoder read none of the example
    responses: Rows  # the text of each example's response (n,); -1 likewise


class SimilarityDistiller(Distiller):
    """A sentence encoder: it compares the responses that it has read, and teaches h_x of a multi-context model."""

    def __init__(self, config: Distillation, texts: TextVectors) -> None:
        self.share, self._sharpness, self.texts = config.share, config.sharpness or SHARPNESS, texts

    def __call__(self, batch: StepBatch) -> Tensor:  # noqa: D102
        contexts, responses = self._read(batch)
        inputs = self.texts.inputs[batch.rows[batch.first + contexts]]
        sides = (inputs, self.texts.responses[batch.rows[responses]])
        x, y = (torch.from_numpy(self.texts.vectors[numbers].astype(np.float32)) for numbers in sides)
        return x @ y.T * self._sharpness

    def student_scores(self, batch: StepBatch, encodings: Encodings) -> tuple[Tensor, int]:  # noqa: D102
        contexts, responses = map(torch.from_numpy, self._read(batch))
        x, y = encodings.get("input", encodings["context"]), encodings["response"]
        scores = scores_of(x[contexts.to(x.device)].float(), y[responses.to(y.device)].float())
        return scores, max(1, len(responses))

    def _read(self, batch: StepBatch) -> tuple[Rows, Rows]:
        """Return which contexts of this process, and which of the batch's K responses, the encoder has read."""
        read = self.texts.inputs[batch.rows] >= 0
        own = read[batch.first : batch.first + sum(part.pairs for part in batch.parts)]
        return np.flatnonzero(own), np.flatnonzero(read)


def open_distiller(config: Distillation | None, store: TokenStore, taught: TextVectors | None) -> Distiller | None:
    """Return the teacher that a recipe names, if any."""
    if config is None:
        return None
    return TeacherDistiller(config, store) if taught is None else SimilarityDistiller(config, taught)


def text_vectors(path: Path, texts: RawExamples, read: Rows, encode: EncodeTexts, display: Display) -> TextVectors:
    """Encode all distinct texts of the examples that are `read` into a file; go on where an earlier call stopped."""
    numbers: dict[str, int] = {}
    sides = np.full((len(texts.offsets) - 1, 2), -1, dtype=np.int64)
    for start in range(0, len(read), CHUNK):
        rows = read[start : start + CHUNK]
        pairs = ((context[-1], response) for context, response in texts.read(rows))
        sides[rows] = [[numbers.setdefault(text, len(numbers)) for text in pair] for pair in pairs]
    distinct = list(numbers)
    vectors = vectors_once(
        path, len(distinct), lambda chosen: unit_rows(encode(distinct[chosen])), "Asking the teacher", display
    )
    return TextVectors(vectors, sides[:, 0], sides[:, 1])


def vectors_once(
    path: Path, count: int, encode: Callable[[slice], FloatArray], title: str, display: Display
) -> npt.NDArray[np.float16]:
    """Write the vectors of `count` texts, of which `encode` makes some, into a file; go on where a call stopped."""
    done = path.with_suffix(".json")
    reached, size = json.loads(done.read_text("utf-8"))[:2] if done.exists() and path.exists() else (0, 0)
    if reached < count:
        with display.track(title, count, "texts") as advance:
            advance(reached)
            for start in range(reached, count, CHUNK):
                found = encode(slice(start, start + CHUNK))
                size = found.shape[1]
                with path.open("r+b" if start else "wb") as file:
                    file.seek(start * size * 2)  # what was cut off in the middle of a chunk is written again
                    file.write(found.astype(np.float16).tobytes())
                with atomic_file(done) as part:
                    part.write_text(json.dumps([start + len(found), size]), encoding="utf-8")
                advance(len(found))
    return np.memmap(path, dtype=np.float16, mode="r", shape=(count, size))
