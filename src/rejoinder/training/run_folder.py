"""The folder of a run: whose it is, what is in it, and making it fit to continue."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rejoinder.errors import InputError
from rejoinder.files import full_disk_named
from rejoinder.training.recipe import Recipe
from rejoinder.training.recipe_files import first_difference, load_recipe, save_recipe


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
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; name a folder for the run")
    if path.is_dir() and any(path.iterdir()) and not folder.recipe.exists():
        raise InputError(f"{path} is not empty and has no {folder.recipe.name}, so it is no run; name another folder")
    if folder.recipe.exists():
        difference = first_difference(load_recipe(folder.recipe, resolved=True), recipe)
        if difference:
            raise InputError(
                f"{path} is a run of another recipe: {difference}; "
                "name another folder, or give the recipe that it was started with"
            )
    path.mkdir(parents=True, exist_ok=True)
    if not folder.recipe.exists():
        save_recipe(recipe, folder.recipe)
    with _locked(folder):
        _tidy(folder)
        with full_disk_named(path):
            yield folder


@contextlib.contextmanager
def _locked(folder: RunFolder) -> Iterator[None]:
    """Keep a second process out of the folder; the lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows has no such lock
        yield
        return
    with folder.recipe.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder.path}: another process is training this run; wait for it or stop it") from None
        yield


def _tidy(folder: RunFolder) -> None:
    """Remove what a killed process left half-written; put a model back that was about to be replaced."""
    for place in (folder.path, folder.checkpoint.parent, folder.tokens, folder.hard_negatives):
        for old in place.glob(".*.old"):
            target = place / old.name[1:].split(".")[0]
            if not target.exists():
                old.rename(target)
        for rest in (*place.glob(".*.part"), *place.glob(".*.old")):
            shutil.rmtree(rest) if rest.is_dir() else rest.unlink()
