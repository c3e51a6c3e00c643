"""Distillation: a model learns to score a batch's candidates as a better, slower one does.

See Hinton et al. 2015. With the teacher's scores T and the student's scores S (its factor c
included) of the candidates of K contexts:

    L = (1 - a) · L_ranking + a · 1/K Σ_i KL( softmax(T_i) || softmax(S_i) )

The teacher reads texts, not the student's tokens, so the two need not share a tokenizer.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.devices import CPU
from rejoinder.encoders.open import is_library, load
from rejoinder.encoders.torch import CrossRanker, PolyDialogueEncoder
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.networks.layers import TRAINING_PREFIX, Encodings, own_scores
from rejoinder.training.data.batches import StepBatch
from rejoinder.training.data.tokens import RawExamples, TokenRows, TokenStore
from rejoinder.training.display import Display
from rejoinder.training.recipe.losses import Loss
from rejoinder.training.recipe.settings import Distillation

CANDIDATES = 16  # that a teacher compares where the recipe gives no number
INVERSE_TEMPERATURE = 20.0
"""Factor of an encoder's cosines where the recipe gives none: sentence-transformers trains with
it."""
CHUNK = 8192  # texts that are encoded between two reports of progress
Scale: TypeAlias = float | Tensor


class DistillLoss(NamedTuple):
    """Terms that the teacher's scores and vectors add to the loss."""

    divergence: Tensor  # of the student's scores from the teacher's
    vector_loss: Tensor
    """Of the student's vectors from the teacher's, weighted; 0 where these are not learned."""


class Distiller(ABC):
    """The teacher of a run."""

    share: float
    ahead = False
    """Whether the teacher only looks up what it made before: another thread then does."""

    @abstractmethod
    def __call__(self, batch: StepBatch) -> Any:
        """Return what the teacher makes of a batch, which needs nothing of the student."""

    @abstractmethod
    def teach(
        self, batch: StepBatch, encodings: Encodings, scale: Scale, teacher_output: Any
    ) -> DistillLoss:
        """Compare the student's encodings with what the teacher made of the batch."""

    def add(
        self, loss: Loss, batch: StepBatch, encodings: Encodings, scale: Scale, teacher_output: Any
    ) -> Loss:
        """Return the ranking loss with the teacher's part, given what it made of the batch."""
        divergence, vector_loss = self.teach(batch, encodings, scale, teacher_output)
        figures = dict(loss.figures)
        figures["loss_ranking"] = loss.value.detach()
        figures["loss_distillation"] = divergence.detach()
        if vector_loss.requires_grad:
            figures["loss_vectors"] = vector_loss.detach()
        value = (1 - self.share) * loss.value + self.share * divergence + vector_loss
        return Loss(value, loss.accuracy, figures)


def divergence_of(student: Tensor, teacher: Tensor, contexts: int) -> Tensor:
    """Return the KL of the softmaxes over each row of scores (k, C).

    It is summed and divided by a number of contexts.
    """
    log_student = torch.log_softmax(student, dim=1)
    log_teacher = torch.log_softmax(teacher.to(student.device), dim=1)
    return (log_teacher.exp() * (log_teacher - log_student)).sum() / contexts


class TeacherDistiller(Distiller):
    """A ranker, mostly a cross- or poly-encoder, as a teacher.

    It compares the response of each context and the next C - 1.
    """

    def __init__(self, config: Distillation, store: TokenStore, device: torch.device = CPU) -> None:
        assert store.texts is not None  # `prepare` keeps them for a teacher
        self.share = config.share
        self._candidates = config.candidates or CANDIDATES
        self._texts = store.texts
        teacher: Any = load(config.teacher, device=str(device))  # a model of ours
        if teacher.fingerprint != config.fingerprint:
            raise InputError(
                "distillation.teacher:"
                f" {config.teacher} was replaced since the recipe was read; run again"
            )
        self._teacher = teacher

    def __call__(self, batch: StepBatch) -> Tensor:  # noqa: D102
        columns = self.columns(batch)
        contexts = [context for context, _ in self._texts.read(batch.rows[columns[:, 0]])]
        wanted = np.unique(columns)
        responses = dict(
            zip(wanted.tolist(), (r for _, r in self._texts.read(batch.rows[wanted])), strict=True)
        )
        candidates = [[responses[column] for column in row] for row in columns.tolist()]
        return torch.from_numpy(self._teacher.score(contexts, candidates))

    def teach(  # noqa: D102
        self, batch: StepBatch, encodings: Encodings, scale: Scale, teacher_output: Any
    ) -> DistillLoss:
        contexts = encodings["context"].float()
        responses = encodings["response"].float()
        columns = torch.from_numpy(self.columns(batch)).to(responses.device)
        scores = own_scores(contexts, responses[columns]) * scale
        return DistillLoss(divergence_of(scores, teacher_output, batch.pairs), scores.new_zeros(()))

    def columns(self, batch: StepBatch) -> TokenRows:
        """Return the candidates' numbers among the batch's K responses, (k, C), right one first."""
        contexts = sum(part.pairs for part in batch.parts)
        numbers = np.arange(min(self._candidates, batch.pairs))
        return (batch.first + np.arange(contexts)[:, None] + numbers) % batch.pairs


# what an encoder reads of an example: a text, or a conversation
TeacherSide: TypeAlias = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextVectors:
    """An encoder's vectors of examples, by the numbers of their sides.

    The number is -1 where it read none of an example.
    """

    vectors: npt.NDArray[np.float16]  # of all that is distinct, of unit length (t, d)
    inputs: TokenRows  # what it makes of each example's newest message alone (n,)
    responses: TokenRows  # of its response (n,)
    contexts: TokenRows | None = None  # of its whole conversation (n,), where the encoder reads any


class SimilarityDistiller(Distiller):
    """An encoder as a teacher of its scores and, through a linear layer, its vectors.

    Of a multi-context model it teaches h_x by the newest message alone. What it makes of the
    conversation is for the combined encodings, unless the student has been shown another history.
    """

    ahead = True

    def __init__(self, config: Distillation, texts: TextVectors, module: Any) -> None:
        self.share = config.share
        self.texts = texts
        self._inverse_temperature = config.sharpness or INVERSE_TEMPERATURE
        self._vector_weight = config.vectors
        self._projection = attach_projection(module, config, texts.vectors.shape[1])

    def __call__(self, batch: StepBatch) -> dict[str, Tensor]:
        """Return the vectors of what it has read, and what that is.

        Vectors are "input" (k, d), "context", if it reads any, and "response" (C, d), in float16.
        Numbers, int64, are those of this process's contexts, "own" (k,), of the batch's responses,
        "every" (C,), and the places of this process's pairs among the latter, "mine" (k,).
        """
        own, every = self._read(batch)
        rows = batch.rows[batch.first + own]
        output = {"input": self._vectors(self.texts.inputs[rows])}
        if self.texts.contexts is not None:
            numbers = self.texts.contexts[rows]
            history = batch.present.get("history")
            if history is not None:
                numbers = np.where(history.rows.numpy()[own], numbers, self.texts.inputs[rows])
            output["context"] = self._vectors(numbers)
        output["response"] = self._vectors(self.texts.responses[batch.rows[every]])
        output["own"] = torch.from_numpy(own)
        output["every"] = torch.from_numpy(every)
        output["mine"] = torch.from_numpy(np.searchsorted(every, own + batch.first))
        return output

    def teach(  # noqa: D102
        self,
        batch: StepBatch,  # noqa: ARG002
        encodings: Encodings,
        scale: Scale,
        teacher_output: Any,
    ) -> DistillLoss:
        own = teacher_output["own"]
        mine = teacher_output["mine"]
        count = max(1, len(teacher_output["every"]))
        y = encodings["response"].float().index_select(0, teacher_output["every"])
        teacher_y = teacher_output["response"].float()
        teacher = {
            name: teacher_output[name].float()
            for name in ("input", "context")
            if name in teacher_output
        }
        if "input" not in encodings:  # a student that reads one text a context
            teacher = {"context": teacher.get("context", teacher["input"])}
        divergences = []
        vector_losses = [
            self._vector_loss(y.index_select(0, mine), teacher_y.index_select(0, mine))
        ]
        for name, teacher_x in teacher.items():
            x = encodings[name].float().index_select(0, own)
            teacher_scores = teacher_x @ teacher_y.T * self._inverse_temperature
            divergences.append(divergence_of(x @ y.T * scale, teacher_scores, count))
            vector_losses.append(self._vector_loss(x, teacher_x))
        vector_loss = self._vector_weight * torch.stack(vector_losses).mean() / count
        return DistillLoss(torch.stack(divergences).mean(), vector_loss)

    def _vector_loss(self, h: Tensor, teacher_vectors: Tensor) -> Tensor:
        if self._projection is None:
            return h.new_zeros(())
        return (1 - F.cosine_similarity(self._projection(h), teacher_vectors, dim=1)).sum()

    def _vectors(self, numbers: TokenRows) -> Tensor:
        return torch.from_numpy(self.texts.vectors[numbers])

    def _read(self, batch: StepBatch) -> tuple[TokenRows, TokenRows]:
        """Return the contexts of this process, and the batch's K responses, that it has read."""
        read = self.texts.inputs[batch.rows] >= 0
        own = read[batch.first : batch.first + sum(part.pairs for part in batch.parts)]
        return np.flatnonzero(own), np.flatnonzero(read)


def attach_projection(module: Any, config: Distillation | None, size: int) -> nn.Linear | None:
    """Give a network its projection to a teacher's vectors, if `config.vectors` has a weight."""
    if config is None or not config.vectors:
        return None
    projection = nn.Linear(module.output_size, size)
    setattr(module, f"{TRAINING_PREFIX}vectors", projection)
    return projection


def open_distiller(
    config: Distillation | None,
    store: TokenStore,
    teacher_vectors: TextVectors | None,
    module: Any,
    device: torch.device = CPU,
) -> Distiller | None:
    """Return the teacher that a recipe names, if any.

    The network gets what it needs for training alone.
    """
    if config is None:
        return None
    if teacher_vectors is None:
        return TeacherDistiller(config, store, device)
    return SimilarityDistiller(config, teacher_vectors, module)


def text_vectors(
    path: Path,
    texts: RawExamples,
    read: TokenRows,
    config: Distillation,
    display: Display,
    device: torch.device = CPU,
) -> TextVectors:
    """Let an encoder read the examples `read` into a file, nothing twice.

    Go on where an earlier call stopped.
    """
    whole = not is_library(config.encoder)
    kept = path.with_suffix(".sides.npy")
    if kept.exists() and path.exists():  # the vectors are whole: no text need be looked at again
        sides = np.load(kept, mmap_mode="r")
        if len(sides) != len(texts.offsets) - 1:
            raise InputError(
                f"{kept} is of {len(sides):,} examples, but the run trains on"
                f" {len(texts.offsets) - 1:,}; delete it and run again"
            )
        return _of_sides(written_vectors(path), sides, whole)
    numbers: dict[TeacherSide, int] = {}
    sides = np.full((len(texts.offsets) - 1, 3 if whole else 2), -1, dtype=np.int64)
    for start in range(0, len(read), CHUNK):
        rows = read[start : start + CHUNK]
        for row, (context, response) in zip(rows.tolist(), texts.read(rows), strict=True):
            pair: list[TeacherSide] = (
                [(context[-1],), response, tuple(context)] if whole else [context[-1], response]
            )
            sides[row] = [numbers.setdefault(side, len(numbers)) for side in pair]
    distinct = list(numbers)
    encoder = _open_encoder(config, device)

    def encode(chosen: slice) -> FloatArray:
        both = distinct[chosen]
        contexts = [number for number, side in enumerate(both) if isinstance(side, tuple)]
        responses = [number for number, side in enumerate(both) if isinstance(side, str)]
        encoded = (
            [encoder.encode_contexts([both[number] for number in contexts])] if contexts else []
        )
        encoded += (
            [encoder.encode_responses([both[number] for number in responses])] if responses else []
        )
        return unit_rows(np.concatenate(encoded)[np.argsort([*contexts, *responses])])

    vectors = vectors_once(path, len(distinct), encode, "Asking the teacher", display)
    save_array(kept, sides)
    return _of_sides(vectors, sides, whole)


def _of_sides(vectors: npt.NDArray[np.float16], sides: TokenRows, whole: bool) -> TextVectors:
    contexts = sides[:, 2] if whole else None
    return TextVectors(vectors, inputs=sides[:, 0], responses=sides[:, 1], contexts=contexts)


def _open_encoder(config: Distillation, device: torch.device) -> Any:
    model: Any = load(config.encoder, device=str(device))
    if is_library(config.encoder):
        return model
    if isinstance(model, CrossRanker | PolyDialogueEncoder):
        raise InputError(
            f"distillation.encoder: {config.encoder} gives no vector of a context;"
            " name it as the teacher"
        )
    if model.fingerprint != config.fingerprint:
        raise InputError(
            "distillation.encoder:"
            f" {config.encoder} was replaced since the recipe was read; run again"
        )
    return model.with_cache()


def vectors_once(
    path: Path, count: int, encode: Callable[[slice], FloatArray], title: str, display: Display
) -> npt.NDArray[np.float16]:
    """Write the vectors of `count` texts, of which `encode` makes some, into a file.

    Go on where a call stopped.
    """
    done = path.with_suffix(".json")
    reached = size = 0
    if done.exists() and path.exists():
        reached, size = json.loads(done.read_text("utf-8"))[:2]
    if reached < count:
        with display.track(title, count, "texts") as advance:
            advance(reached)
            for start in range(reached, count, CHUNK):
                vectors = encode(slice(start, start + CHUNK))
                size = vectors.shape[1]
                with path.open("r+b" if start else "wb") as file:
                    # what was cut off in the middle of a chunk is written again
                    file.seek(start * size * 2)
                    file.write(vectors.astype(np.float16).tobytes())
                with atomic_file(done) as part:
                    part.write_text(json.dumps([start + len(vectors), size]), encoding="utf-8")
                advance(len(vectors))
    return written_vectors(path)


def written_vectors(path: Path) -> npt.NDArray[np.float16]:
    """Map the vectors that `vectors_once` has written."""
    count, size = json.loads(path.with_suffix(".json").read_text("utf-8"))
    return np.memmap(path, dtype=np.float16, mode="r", shape=(count, size))


def save_array(path: Path, array: npt.NDArray[Any]) -> None:
    """Write an array whole or not at all."""
    with atomic_file(path) as part, part.open("wb") as file:
        np.save(file, array)
