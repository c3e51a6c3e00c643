"""The paths and names of what a server loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
    reranker: Callable[[], Ranker] | None = None  # opens what may rank the best replies again
    calibrated: bool = False  # refuse an index that is not
    second: Sources | None = None  # a second index, to compare with

    @property
    def store(self) -> Store:
        """The store of the index; a folder is named by its absolute path, which no word equals."""
        from rejoinder.stores.address import store_of

        return store_of(absolute_name(self.index))


def absolute_name(index: str | Path | Store) -> str | Path | Store:
    """Return the name of an index that means the same in every current folder."""
    from rejoinder.stores.address import POSTGRES
    from rejoinder.stores.store import Store

    if isinstance(index, Store) or (isinstance(index, str) and index.startswith(POSTGRES)):
        return index
    return Path(index).absolute()
