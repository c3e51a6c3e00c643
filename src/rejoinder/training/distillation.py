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
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rejoinder.arrays import unit_rows
from rejoinder.baselines.encoders import is_encoder, open_encoder
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.models import persistence
from rejoinder.models.encoder import CrossRanker, DialogueEncoder, PolyDialogueEncoder
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


Side: TypeAlias = str | tuple[str, ...]  # what an encoder reads of an example: a text, or a conversation


@dataclass(frozen=True, slots=True)
class TextVectors:
    """What an encoder makes of the contexts and the responses of all examples."""

    vectors: npt.NDArray[np.float16]  # of all that is distinct, of unit length (t, d)
    contexts: Rows  # which of them is each example's context (n,); -1 where the encoder read none of the example
    responses: Rows  # which is its response (n,); -1 likewise
    whole: bool = False  # whether it reads conversations; else the newest message is the context


class SimilarityDistiller(Distiller):
    """An encoder: it compares what it has read. One of sentences teaches h_x of a multi-context model."""

    def __init__(self, config: Distillation, texts: TextVectors) -> None:
        self.share, self._sharpness, self.texts = config.share, config.sharpness or SHARPNESS, texts

    def __call__(self, batch: StepBatch) -> Tensor:  # noqa: D102
        contexts, responses = self._read(batch)
        read = self.texts.contexts[batch.rows[batch.first + contexts]]
        sides = (read, self.texts.responses[batch.rows[responses]])
        x, y = (torch.from_numpy(self.texts.vectors[numbers].astype(np.float32)) for numbers in sides)
        return x @ y.T * self._sharpness

    def student_scores(self, batch: StepBatch, encodings: Encodings) -> tuple[Tensor, int]:  # noqa: D102
        contexts, responses = map(torch.from_numpy, self._read(batch))
        x, y = encodings["context"], encodings["response"]
        x = x if self.texts.whole else encodings.get("input", x)
        scores = scores_of(x[contexts.to(x.device)].float(), y[responses.to(y.device)].float())
        return scores, max(1, len(responses))

    def _read(self, batch: StepBatch) -> tuple[Rows, Rows]:
        """Return which contexts of this process, and which of the batch's K responses, the encoder has read."""
        read = self.texts.contexts[batch.rows] >= 0
        own = read[batch.first : batch.first + sum(part.pairs for part in batch.parts)]
        return np.flatnonzero(own), np.flatnonzero(read)


def open_distiller(config: Distillation | None, store: TokenStore, taught: TextVectors | None) -> Distiller | None:
    """Return the teacher that a recipe names, if any."""
    if config is None:
        return None
    return TeacherDistiller(config, store) if taught is None else SimilarityDistiller(config, taught)


def text_vectors(path: Path, texts: RawExamples, read: Rows, config: Distillation, display: Display) -> TextVectors:
    """Let an encoder read the examples `read` into a file, nothing twice; go on where an earlier call stopped."""
    whole = not is_encoder(config.encoder)
    numbers: dict[Side, int] = {}
    sides = np.full((len(texts.offsets) - 1, 2), -1, dtype=np.int64)
    for start in range(0, len(read), CHUNK):
        rows = read[start : start + CHUNK]
        pairs = ((tuple(context) if whole else context[-1], response) for context, response in texts.read(rows))
        sides[rows] = [[numbers.setdefault(side, len(numbers)) for side in pair] for pair in pairs]
    distinct, encoder = list(numbers), _open_encoder(config)

    def encode(chosen: slice) -> FloatArray:
        both = distinct[chosen]
        contexts = [number for number, side in enumerate(both) if isinstance(side, tuple)]
        responses = [number for number, side in enumerate(both) if isinstance(side, str)]
        found = [encoder.encode_contexts([both[number] for number in contexts])] if contexts else []
        found += [encoder.encode_responses([both[number] for number in responses])] if responses else []
        return unit_rows(np.concatenate(found)[np.argsort([*contexts, *responses])])

    vectors = vectors_once(path, len(distinct), encode, "Asking the teacher", display)
    return TextVectors(vectors, sides[:, 0], sides[:, 1], whole)


def _open_encoder(config: Distillation) -> Any:
    if is_encoder(config.encoder):
        return open_encoder(config.encoder).forgetting()
    model = persistence.load(config.encoder)
    if isinstance(model, CrossRanker | PolyDialogueEncoder):
        raise InputError(f"distillation.encoder: {config.encoder} gives no vector of a context; name it as the teacher")
    if model.fingerprint != config.fingerprint:
        raise InputError(f"distillation.encoder: {config.encoder} was replaced since the recipe was read")
    return model if isinstance(model, DialogueEncoder) else model.remembering()


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
