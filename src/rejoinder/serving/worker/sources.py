"""The paths and names of what a server loads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rejoinder.errors import InputError

if TYPE_CHECKING:
    from rejoinder.encoders.engines import EngineName
    from rejoinder.encoders.protocol import Ranker
    from rejoinder.stores.store import Store


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Paths and names of what the server loads."""

    index: str | Path | Store
    device: str = "cpu"  # where the encoder computes
    engine: EngineName = "auto"  # what with
    model: str | None = None  # where the index's model is now; None: where it was
    intents: Path | None = None
    ranker: str | None = None  # what may rank the best replies again, and what opens it
    open_ranker: Callable[[str], Ranker] | None = None
    calibrated: bool = False  # refuse an index that is not
    second: Sources | None = None  # a second index, to compare with

    @property
    def store(self) -> Store:
        """The store of the index; a folder is named by its absolute path, which no word equals."""
        from rejoinder.stores.address import store_of

        return store_of(absolute_name(self.index))

    def hide_places(self, text: str) -> str:
        """Return an error's text without the places of index and models; it may read the store."""
        for name in sorted(self._model_names(), key=len, reverse=True):
            path = Path(os.path.abspath(name))  # noqa: PTH100 (links keep their names)
            for place in (str(path), os.path.realpath(path)):
                text = text.replace(place, path.name)
        if self.second is not None:
            text = self.second.hide_places(text)
        return self.store.hide_place(text)

    def hide_stores(self, text: str) -> str:
        """Return an error's text without the places of the indexes."""
        text = self.store.hide_place(text)
        return text if self.second is None else self.second.hide_stores(text)

    def _model_names(self) -> Iterator[str]:
        for name in (self.model, self.intents, self.ranker):
            if name is not None:
                yield str(name)
        with contextlib.suppress(InputError, OSError):  # the index is gone, too
            record = self.store.read_manifest().model
            yield from filter(None, (record.name, record.path))


def absolute_name(index: str | Path | Store) -> str | Path | Store:
    """Return the name of an index that means the same in every current folder."""
    from rejoinder.stores.address import is_address
    from rejoinder.stores.store import Store

    if isinstance(index, Store) or is_address(index):
        return index
    return Path(index).absolute()
