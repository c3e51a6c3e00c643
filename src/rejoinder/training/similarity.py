"""Distillation from a sentence encoder: a batch's replies are told apart as its cosines do.

A sentence encoder has read hundreds of millions of sentences. Its cosines rank the replies of a batch for each context:
they tell not only which reply was given, but also how near every other one comes to it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rejoinder.arrays import unit_rows
from rejoinder.baselines.encoders import EncodeTexts
from rejoinder.errors import InputError
from rejoinder.files import atomic_file, file_digest
from rejoinder.models.layers import Encodings
from rejoinder.models.reductions import scores_of
from rejoinder.progress import Advance
from rejoinder.training.batches import StepBatch
from rejoinder.training.display import Display
from rejoinder.training.losses import Loss
from rejoinder.training.recipe import Distillation
from rejoinder.training.tokens import RawExamples, Rows

CHUNK = 8192
"""Texts that are encoded between two notes of how far it has come."""

SHARPNESS = 20.0
"""s of a recipe without one: sentence-transformers trains its encoders with it."""


@dataclass(frozen=True, slots=True)
class TextVectors:
    """What a sentence encoder makes of the newest messages and the responses of all examples."""

    vectors: npt.NDArray[np.float16]
    """One for each distinct text, of unit length (t, d)."""
    inputs: Rows
    """The text of each example's newest message (n,); -1 where the encoder read none of the example."""
    responses: Rows
    """The text of each example's response (n,); -1 likewise."""


def text_vectors(path: Path, texts: RawExamples, read: Rows, encode: EncodeTexts, display: Display) -> TextVectors:
    """Encode all distinct texts of the examples that are `read`, once; an interrupted call is continued.

    The vectors are in the file `path`; how far it has come stands beside it.
    """
    numbers: dict[str, int] = {}
    sides = np.full((len(texts.offsets) - 1, 2), -1, dtype=np.int64)
    for start in range(0, len(read), CHUNK):
        rows = read[start : start + CHUNK]
        pairs = ((context[-1], response) for context, response in texts.read(rows))
        sides[rows] = [[numbers.setdefault(text, len(numbers)) for text in pair] for pair in pairs]
    distinct = list(numbers)
    done = path.with_suffix(".json")
    known = json.loads(done.read_text("utf-8")) if done.exists() and path.exists() else (0, 0)
    reached, size, *digest = known
    if digest and digest[0] != file_digest(path):
        raise InputError(f"{path} was altered after it was written; delete it and run again")
    if reached < len(distinct):
        with display.track("Asking the teacher", len(distinct), "texts") as advance:
            advance(reached)
            size = _encode_rest(path, distinct, reached, encode, advance)
    vectors = np.memmap(path, dtype=np.float16, mode="r", shape=(len(distinct), size))
    return TextVectors(vectors, sides[:, 0], sides[:, 1])


def _encode_rest(path: Path, texts: Sequence[str], reached: int, encode: EncodeTexts, advance: Advance) -> int:
    """Add the vectors of texts[reached:] to the file; return their size."""
    size = 0
    for start in range(reached, len(texts), CHUNK):
        found = encode(texts[start : start + CHUNK])
        size = found.shape[1]
        with path.open("r+b" if start else "wb") as file:
            file.seek(start * size * 2)  # what was cut off in the middle of a chunk is written again
            file.write(unit_rows(found).astype(np.float16).tobytes())
        with atomic_file(path.with_suffix(".json")) as part:
            reached = start + len(found)
            digest = [file_digest(path)] if reached == len(texts) else []
            part.write_text(json.dumps([reached, size, *digest]), encoding="utf-8")
        advance(len(found))
    return size


class SimilarityDistiller:
    """The sentence encoder of a run.

    Let a batch have K pairs that the encoder has read. For the context i and the response j of these, let T_ij be the
    cosine of the vectors of i's newest message and of j. With the student's scores S (its factor c included), the
    teacher's factor s and the temperature t:

        L = (1 - a) · L_ranking + a · t² · 1/K Σ_i KL( softmax(s·T_i / t) || softmax(S_i / t) )

    The teacher reads no history, so of a multi-context model it teaches h_x.
    """

    def __init__(self, config: Distillation, texts: TextVectors) -> None:
        self.config, self.texts = config, texts

    def __call__(self, batch: StepBatch) -> Tensor:
        """s·T: the contexts of this process that were read, by all responses that were: (k, K)."""
        contexts, responses = self._read(batch)
        inputs = self.texts.inputs[batch.rows[batch.first + contexts]]
        x, y = (self._vectors(numbers) for numbers in (inputs, self.texts.responses[batch.rows[responses]]))
        return x @ y.T * (self.config.sharpness or SHARPNESS)

    def add(self, loss: Loss, batch: StepBatch, encodings: Encodings, scale: float | Tensor, taught: Tensor) -> Loss:
        """The loss with the teacher's part; see `Distiller.add`."""
        contexts, responses = map(torch.from_numpy, self._read(batch))
        x, y = encodings.get("input", encodings["context"]), encodings["response"]
        student = scores_of(x[contexts.to(x.device)].float(), y[responses.to(y.device)].float()) * scale
        return blended(loss, student, taught, max(1, len(responses)), self.config)

    def _read(self, batch: StepBatch) -> tuple[Rows, Rows]:
        """Return which contexts of this process, and which of the batch's K responses, the encoder has read."""
        read = self.texts.inputs[batch.rows] >= 0
        own = read[batch.first : batch.first + sum(part.pairs for part in batch.parts)]
        return np.flatnonzero(own), np.flatnonzero(read)

    def _vectors(self, numbers: Rows) -> Tensor:
        return torch.from_numpy(self.texts.vectors[numbers].astype(np.float32))


def blended(loss: Loss, student: Tensor, taught: Tensor, pairs: int, config: Distillation) -> Loss:
    """Return (1 - a) of the ranking loss plus a of the divergence of two models' scores (k, C) as probabilities."""
    t, share = config.temperature, config.share
    found = torch.log_softmax(student / t, dim=1)
    wanted = torch.log_softmax(taught.to(found.device) / t, dim=1)
    divergence = (wanted.exp() * (wanted - found)).sum() / pairs * t**2
    figures = {**loss.figures, "loss_ranking": loss.value.detach(), "loss_distillation": divergence.detach()}
    return Loss((1 - share) * loss.value + share * divergence, loss.accuracy, figures)
