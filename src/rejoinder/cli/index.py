"""`rejoinder index`: encode replies; add to an index, delete from it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from rejoinder.cli.options import Address, EngineName, Json, Overwrite, Split, ray_engine, wants_ray
from rejoinder.cli.reply import open_index
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import track

if TYPE_CHECKING:
    from rejoinder.corpora.engine import Engine
    from rejoinder.retrieval.index import Index
    from rejoinder.retrieval.reading import Candidate

Dtype = Literal["float32", "float16", "int8"]


def index(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="INDEX", help="The index's folder.")],
    model: Annotated[
        str | None, typer.Argument(help="A model folder, or the name of a bundled model; not with --delete.")
    ] = None,
    replies: Annotated[
        Path | None,
        typer.Argument(help="Text (one reply a line), .jsonl, .csv, or a folder or .parquet of examples."),
    ] = None,
    dtype: Annotated[
        Dtype | None,
        typer.Option(
            help="What a search scans: float16 takes half the memory, int8 a quarter; the few best are scored again "
            "with the float32 vectors. float32 if not given."
        ),
    ] = None,
    split: Annotated[Split | None, typer.Option(help="Of examples, only this part.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the first N replies.")] = None,
    deduplicate: Annotated[bool, typer.Option("--deduplicate", help="Only the first of equal texts.")] = False,
    append: Annotated[bool, typer.Option("--append", help="Add to an index that exists.")] = False,
    overwrite: Overwrite = False,
    delete: Annotated[
        list[int] | None, typer.Option(metavar="POSITION", help="Delete the reply at this position; repeatable.")
    ] = None,
    delete_id: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Delete the replies whose field id is this; repeatable.")
    ] = None,
    where: EngineName = "local",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Encode replies to answer with. A reply keeps its position, counted from 0, and its line's other fields.

    Example: rejoinder index runs/small/model replies.txt -o replies.index, and later
    rejoinder index runs/small/model more.txt -o replies.index --append, or
    rejoinder index -o replies.index --delete 17
    """
    on_ray = wants_ray(where, address)
    if delete or delete_id:
        if model or append or overwrite or on_ray:
            raise InputError("--delete takes only -o INDEX; add or overwrite in a call of its own")
        emit(_delete(output, delete or [], delete_id or []), as_json, _text)
        return
    if model is None or replies is None:
        raise InputError("name a MODEL and its REPLIES, as in: rejoinder index runs/small/model replies.txt -o INDEX")
    if append and overwrite:
        raise InputError("--append adds to the index, --overwrite replaces it; give one of them")
    source = _Source(replies, split, limit, deduplicate)
    files = [path for path in Path(model).glob("*") if path.is_file()]
    with ray_engine(address, output, files) if on_ray else contextlib.nullcontext() as engine:
        if append:
            result = _append(model, source, output, dtype, engine)
        else:
            result = _build(model, source, output, dtype or "float32", overwrite, engine)
    emit(result, as_json, _text)


class _Source(NamedTuple):
    """Replies that are read twice: to check and count them before hours of encoding, and to encode them."""

    path: Path
    split: Split | None
    limit: int | None
    deduplicate: bool

    def read(self, known: Sequence[str] = ()) -> Iterator[Candidate]:
        """Yield the replies, without the texts that are known already if equal texts are not wanted."""
        from rejoinder.retrieval.reading import distinct, read_candidates

        found = read_candidates(self.path, self.split)
        return itertools.islice(distinct(found, known) if self.deduplicate else found, self.limit)

    def total(self, known: Sequence[str] = ()) -> int:
        total = 0
        with track(f"Reading {self.path}", unit="replies") as advance:
            for total, _ in enumerate(self.read(known), 1):  # noqa: B007 (the last one is the count)
                advance(1)
        if not total and not known:
            raise InputError(f"{self.path} holds no replies; each line of it should be one")
        return total


def _build(
    model: str, source: _Source, output: Path, dtype: Dtype, overwrite: bool, engine: Engine | None
) -> dict[str, Any]:
    import rejoinder
    from rejoinder.retrieval.index import Index, check_target

    check_target(output, overwrite=overwrite)
    encoder: Any = rejoinder.load(model)
    if not hasattr(encoder, "encode_responses"):
        raise InputError(
            f"{model} reads a reply together with the conversation, so it cannot encode replies ahead of time; index "
            "them with a bi- or poly-encoder or ConveRT, and let this one rank the best: rejoinder reply --rerank"
        )
    total = source.total()
    with track("Encoding", total=total, unit="replies") as advance:
        built = Index.build(
            encoder, source.read(), output, dtype=dtype, overwrite=overwrite, progress=advance, engine=engine
        )
    return _describe(built, added=total)


def _append(
    model: str, source: _Source, output: Path, dtype: Dtype | None, engine: Engine | None
) -> dict[str, Any]:
    found = open_index(output, model)
    if dtype not in (None, found.manifest.dtype):
        raise InputError(f"{output} holds {found.manifest.dtype}, not {dtype}; leave --dtype out, or build it again")
    known = [candidate.text for _, candidate in found] if source.deduplicate else []
    with track("Encoding", total=source.total(known), unit="replies") as advance:
        added = found.add(source.read(known), progress=advance, engine=engine)
    return _describe(found, added=len(added))


def _delete(output: Path, positions: list[int], ids: list[str]) -> dict[str, Any]:
    from rejoinder.retrieval.index import Index

    found = Index.open(output)
    by_id: dict[str, list[int]] = {name: [] for name in ids}
    for position, candidate in found if ids else ():
        by_id.get(str(candidate.payload.get("id")), []).append(position)
    if missing := [name for name in ids if not by_id[name]]:
        raise InputError(f"{output} has no reply whose field id is {missing[0]!r}")
    deleted = found.delete({*positions, *itertools.chain(*by_id.values())})
    return _describe(found, deleted=deleted)


def _describe(found: Index, *, added: int = 0, deleted: int = 0) -> dict[str, Any]:
    return {
        "index": str(found.folder),
        "replies": len(found),
        "added": added,
        "deleted": deleted,
        "size": found.manifest.size,
        "dtype": found.manifest.dtype,
        "bytes": sum(path.stat().st_size for path in found.folder.rglob("*") if path.is_file()),
        "model": found.manifest.model.name,
        "fingerprint": found.fingerprint,
    }


def _text(result: Mapping[str, Any]) -> str:
    added = f"{result['added']:,} added, " if 0 < result["added"] != result["replies"] else ""
    deleted = f"{result['deleted']:,} deleted, " if result["deleted"] else ""
    return (
        f"{result['index']}: {added}{deleted}{result['replies']:,} replies, "
        f"vectors of {result['size']} as {result['dtype']}, {result['bytes'] / 1e6:.1f} MB\n"
        f'Try: rejoinder reply {result["index"]} "How are you?"'
    )
