"""When a run validates and saves, and what."""

from __future__ import annotations

from typing import Any

import torch

from rejoinder.models import persistence
from rejoinder.text.tokenizer import Tokenizer
from rejoinder.training.checkpoint import save_checkpoint
from rejoinder.training.learned_scale import scale_of
from rejoinder.training.recipe import Recipe
from rejoinder.training.run_folder import RunFolder
from rejoinder.training.state import RunState
from rejoinder.training.summary import model_card
from rejoinder.training.validation import Encode, Validator


class Keeper:
    """Validates the model and keeps the best one; writes checkpoints.

    Args:
        recipe: the run's.
        folder: the run's.
        state: where the run stands.
        module: the model.
        tokenizer: its vocabulary.
        validator: None for a run without validation, of which the last model is kept.
        precision: name of the precision, for the model card.
        writes: whether this process writes files; of several, one does.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: RunFolder,
        state: RunState,
        module: Any,
        tokenizer: Tokenizer,
        validator: Validator | None,
        precision: str,
        writes: bool = True,
    ) -> None:
        self.recipe, self.folder, self.state = recipe, folder, state
        self.module, self.tokenizer, self.validator, self.precision = module, tokenizer, validator, precision
        self.writes = writes
        self._saved_at = state.seconds
        self.saved_step: int | None = state.step if folder.checkpoint.exists() else None

    def validation_due(self, batches_per_epoch: int) -> bool:
        """Whether it is time to validate within a stage whose epochs have so many batches."""
        config, state = self.recipe.validation, self.state
        if self.validator is None:
            return False
        if config.every_steps is not None:
            return state.step % config.every_steps == 0
        if config.every_epochs is not None:
            return state.stage_step % max(1, round(config.every_epochs * batches_per_epoch)) == 0
        return config.every_seconds is not None and state.seconds - state.validated_at >= config.every_seconds

    def checkpoint_due(self) -> bool:
        """Whether it is time to write a checkpoint within a stage."""
        config, state = self.recipe.checkpoint, self.state
        if config.every_steps is not None and state.step % config.every_steps == 0:
            return True
        return config.every_seconds is not None and state.seconds - self._saved_at >= config.every_seconds

    def stalled(self) -> bool:
        """Whether the stage has validated without gain as often as the recipe has patience for."""
        patience = self.recipe.validation.patience
        return patience > 0 and self.state.without_gain >= patience

    def validate(
        self, encode: Encode, scale: float = 1.0, patience: int | None = None
    ) -> tuple[dict[str, float], bool]:
        """Validate, and save the model if it is the best so far.

        Args:
            encode: see `validation.Encode`.
            scale: factor of the scores in the loss.
            patience: of the stage's schedule, where it looks at the loss.

        Returns:
            The figures, and whether they are the best so far.
        """
        assert self.validator is not None
        state = self.state
        self.module.eval()
        figures = self.validator(encode, scale)
        state.see_loss(figures["loss"], patience)
        state.validated_step, state.validated_at = state.step, state.seconds
        score = figures["recall@1"]
        if state.stage_best is None or score > state.stage_best:
            state.stage_best, state.without_gain = score, 0
        else:
            state.without_gain += 1
        best = state.best is None or score > state.best
        if best:
            state.best, state.validation = score, figures
            self.save_model()
        return figures, best

    def save_model(self) -> None:
        """Write the model folder."""
        self.state.best_step = self.state.step
        if not self.writes:
            return
        card = model_card(self.recipe, self.state, self.precision)
        persistence.save(
            self.folder.model,
            self.module,
            self.tokenizer,
            max_length=self.recipe.text.max_length,
            card=card,
            scale=scale_of(self.module),
            overwrite=True,
        )

    def checkpoint(self, optimizer: torch.optim.Optimizer | None, scaler: dict[str, Any]) -> None:
        """Write everything needed to continue."""
        if self.writes:
            save_checkpoint(self.folder.checkpoint, self.state, self.module, optimizer, scaler)
        self._saved_at, self.saved_step = self.state.seconds, self.state.step

    def is_finite(self) -> bool:
        """Whether all weights are finite numbers."""
        return all(bool(parameter.isfinite().all()) for parameter in self.module.parameters())
