"""The folder of a run: its paths, and how it is opened."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from rejoinder.encoders import folders, persistence
from rejoinder.errors import InputError
from rejoinder.files import remove_leftovers
from rejoinder.folder_kinds import check_replaceable, check_shared
from rejoinder.locks import locked
from rejoinder.paths import name_path_on_enospc
from rejoinder.training.recipe.settings import Recipe
from rejoinder.training.recipe_files import first_difference, load_recipe, save_recipe

_LOCK = ".lock"


class RunFolder:
    """Paths of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe = path / "recipe.toml"  # resolved, every default written out
        self.checkpoint = path / "checkpoint" / "last.safetensors"  # everything needed to continue
        self.model = path / "model"  # the best by validation
        self.metrics = path / "metrics.jsonl"
        self.tensorboard = path / "tensorboard"
        self.tokens = path / "tokens"  # vocabulary and token arrays
        self.hard_negatives = path / "hard_negatives"
        self.summary = path / "summary.json"  # what came out, once the run is finished

    @property
    def has_begun(self) -> bool:
        """Return whether anything that was learned is in it."""
        return any(file.exists() for file in (self.checkpoint, self.model, self.summary))

    def forget(self) -> None:
        """Remove what was logged of steps whose results are not there."""
        self.metrics.unlink(missing_ok=True)
        if self.tensorboard.exists():
            shutil.rmtree(self.tensorboard)


@contextlib.contextmanager
def open_run(path: Path, recipe: Recipe) -> Iterator[RunFolder]:
    """Lock a run's folder, a new one or one that the same recipe began, and tidy it.

    Refuse any other.
    """
    folder = RunFolder(path)
    _check(folder, recipe)
    path.mkdir(parents=True, exist_ok=True)
    with locked(path / _LOCK, f"{path} is being trained"):
        for directory in (path, folder.checkpoint.parent, folder.tokens, folder.hard_negatives):
            remove_leftovers(directory)
            for lock in directory.glob("*.lock"):
                if lock != path / _LOCK:  # nobody else is in here
                    lock.unlink()
        _check(folder, recipe)  # another process may have begun in between
        if not folder.has_begun:
            folder.forget()
            save_recipe(recipe, folder.recipe)
        check_replaceable(folder.model, folders.FOLDER, overwrite=True)
        with name_path_on_enospc(path):
            yield folder


def _check(folder: RunFolder, recipe: Recipe) -> None:
    if not folder.recipe.exists():
        check_shared(folder.path, f"a run, which has a {folder.recipe.name}", [_LOCK])
    elif not folder.has_begun:
        return  # such as after an error in the recipe
    elif difference := first_difference(load_recipe(folder.recipe, resolved=True), recipe):
        raise InputError(
            f"{folder.path} is a run of another recipe: {difference};"
            " name another folder, or give the recipe that it was started with"
        )


def check_model(folder: RunFolder) -> None:
    """Refuse a run whose best model cannot be opened any more: no checkpoint holds it."""
    try:
        persistence.whole_config(folder.model)
    except InputError as error:
        raise InputError(
            f"{error}, or train again in another folder; {folder.path} cannot go on without it"
        ) from None
