"""`rejoinder index --approximate`: an index that is searched by a file of FAISS, and back to one that is not."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from rejoinder.cli.rankers import open_index
from rejoinder.errors import InputError
from rejoinder.progress import note, track

if TYPE_CHECKING:
    from rejoinder.retrieval.index import Index
    from rejoinder.retrieval.search import Searcher

RECALL, CONTEXTS = 0.95, 1000
Approximate: TypeAlias = Annotated[
    bool | None,
    typer.Option("--approximate/--exact", help="Search faster, and find nearly all; or look at every reply again."),
]
Recall: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="R", help=f"With --approximate: wanted share of the 30 best; {RECALL} if not given."),
]
Method: TypeAlias = Annotated[
    Literal["hnsw", "ivf", "scan"] | None,
    typer.Option(help="With --approximate: a graph; cells, if not given above 5M replies; or a scan of all in 8 bits."),
]
Data: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="DATA", help="With --approximate: conversations to tune and measure it with.")
]


def check_search(approximate: bool | None, **options: object) -> None:
    """Refuse options that go with --approximate alone."""
    for option, given in options.items():
        if given is not None and not approximate:
            raise InputError(f"--{option} is of approximate search; give --approximate with it, or leave it out")


def change_search(
    folder: Path, model: str | None, approximate: bool, recall: float | None, method: Method, data: Path | None
) -> Index:
    """Make the search of an index approximate, or exact again; see `Index.approximate`."""
    from rejoinder.corpora.examples import read_examples
    from rejoinder.evaluation.tasks import sample
    from rejoinder.retrieval.index import Index

    if not approximate:
        index = Index.open(folder)
        index.exact()
        return index
    opened = open_index(folder, model)
    if not isinstance(opened, Index):
        raise InputError(f"{folder}: Milvus searches approximately by itself; leave --approximate out")
    contexts = None
    if data is None:
        note("tuned and measured with texts of the replies as contexts; --data names real conversations")
    else:
        with track(f"Reading {data}") as advance:
            part = read_examples(data, "valid" if data.is_dir() else None)
            contexts = [example.context for example in sample(part, CONTEXTS, progress=advance)]
    opened.approximate(RECALL if recall is None else recall, contexts, method=method, track=track)
    return opened


def describe_search(index: Searcher) -> dict[str, Any] | None:
    """Return what is known of an index's approximate search; None: it is exact."""
    record = index.manifest.approximate
    return None if record is None else asdict(record)
