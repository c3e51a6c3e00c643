"""The folder that keeps what is made once: token stores, vocabularies and vectors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from rejoinder.files import remove_leftovers
from rejoinder.locks import locked
from rejoinder.training.recipe.settings import Recipe

CACHED = (".lock", "vocabulary-*", "train-*", "valid-*", "words-*", "vectors-*")  # what it holds


class InputCache:
    """A folder of inputs, which several runs may share; one process at a time writes to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, recipe: Recipe, run: Path) -> InputCache:
        """Return the cache that a recipe names, or the folder of its run."""
        return cls(Path(recipe.data.cache) if recipe.data.cache else run)

    def make_once(self, path: Path, make: Callable[[], object]) -> None:
        """Let `make` write what is not there yet."""
        if not path.exists():
            with self.writing():
                if not path.exists():  # else the process that was waited for has made it
                    make()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Let one process at a time write to the folder; remove what killed ones left."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / ".lock", f"{self.folder} is being written", seconds=None):
            remove_leftovers(self.folder)
            yield
