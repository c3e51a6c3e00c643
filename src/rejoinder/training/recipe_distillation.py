"""[distillation] of a recipe: who teaches, and how much that counts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from rejoinder.training.recipe_types import STRICT, Count, Positive


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Distillation:
    """[distillation]: learning to score as a better model does, beside learning from the examples.

    The better model is a teacher of ours (see `distillation`) or a sentence encoder (see `similarity`).
    """

    teacher: str = ""
    """Model folder of any ranker, or its id on the Hugging Face Hub: mostly a cross- or poly-encoder. Or:"""
    encoder: str = ""
    """"minilm", "use", or a folder or an id of sentence-transformers, whose cosines are the scores."""
    sharpness: Positive | None = None
    """With `encoder`: factor of its cosines; 20 if not given."""
    fingerprint: str = ""
    """The teacher's fingerprint, filled in when the recipe is read. If it is given, no other model is taken."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Weight of the teacher's part of the loss; the rest is that of the ranking loss."""
    sample: Count | None = None
    """With `encoder`: so many training examples, drawn at random, are read by it and taught; all if not given. A text
    takes it some milliseconds."""
    candidates: Annotated[int, Field(ge=2)] | None = None
    """With `teacher`: candidates of each context that are compared, its own response and others of the batch (a
    cross-encoder reads every one with the context, which is what takes the time); 16 if not given. With `encoder` all
    responses of the batch are compared."""
    temperature: Positive = 1.0
    """Divides both models' scores: the higher, the more the order of bad candidates counts."""

    def __post_init__(self) -> None:
        if bool(self.teacher) == bool(self.encoder):
            raise ValueError("give teacher, a model folder, or encoder, a sentence encoder: one of the two")
        if self.encoder and (self.candidates is not None or self.fingerprint):
            raise ValueError("candidates and fingerprint are of a teacher; an encoder compares the whole batch")
        if self.teacher and (self.sharpness is not None or self.sample is not None):
            raise ValueError("sharpness and sample are of an encoder; a teacher scores every batch as it does")
