"""The folder of a run: whose it is, what is in it, and making it fit to continue."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rejoinder.errors import InputError
from rejoinder.files import check_replaceable, check_shared, full_disk_named, locked, remove_leftovers
from rejoinder.models import persistence
from rejoinder.training.recipe import Recipe
from rejoinder.training.recipe_files import first_difference, load_recipe, save_recipe

_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of a run.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def recipe(self) -> Path:
        """The resolved recipe."""
        return self.path / "recipe.toml"

    @property
    def checkpoint(self) -> Path:
        """Everything needed to continue."""
        return self.path / "checkpoint" / "last.safetensors"

    @property
    def model(self) -> Path:
        """The best model by validation."""
        return self.path / "model"

    @property
    def metrics(self) -> Path:
        """Metrics, one JSON object a line."""
        return self.path / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        """The same for TensorBoard."""
        return self.path / "tensorboard"

    @property
    def tokens(self) -> Path:
        """Vocabulary and token arrays."""
        return self.path / "tokens"

    @property
    def hard_negatives(self) -> Path:
        """Mined tables."""
        return self.path / "hard_negatives"

    @property
    def summary(self) -> Path:
        """What came out, once the run is finished."""
        return self.path / "summary.json"


@contextlib.contextmanager
def open_run(path: Path, recipe: Recipe) -> Iterator[RunFolder]:
    """Take hold of a run's folder, a new one or one that the same recipe began.

    Raises:
        InputError: the folder is of something else, of another recipe, or another process trains in it.
    """
    folder = RunFolder(path)
    _check(folder, recipe)
    path.mkdir(parents=True, exist_ok=True)
    with locked(path / _LOCK, f"{path} is being trained"):
        _check(folder, recipe)  # another process may have begun in between
        if not folder.recipe.exists():
            save_recipe(recipe, folder.recipe)
        for place in (folder.path, folder.checkpoint.parent, folder.tokens, folder.hard_negatives):
            remove_leftovers(place)
            for lock in place.glob("*.lock"):
                if lock != path / _LOCK:  # nobody else is in here
                    lock.unlink()
        check_replaceable(folder.model, persistence.FOLDER, overwrite=True)
        with full_disk_named(path):
            yield folder


def _check(folder: RunFolder, recipe: Recipe) -> None:
    """Refuse a folder of something else, or of another recipe."""
    if not folder.recipe.exists():
        check_shared(folder.path, f"a run, which has a {folder.recipe.name}", [_LOCK])
        return
    difference = first_difference(load_recipe(folder.recipe, resolved=True), recipe)
    if difference:
        raise InputError(
            f"{folder.path} is a run of another recipe: {difference}; "
            "name another folder, or give the recipe that it was started with"
        )


def check_model(folder: RunFolder) -> None:
    """Refuse a run whose best model cannot be opened any more; it is in no checkpoint."""
    try:
        persistence.whole_config(folder.model)
    except InputError as error:
        raise InputError(f"{error}, or train again in another folder; {folder.path} cannot go on without it") from None
