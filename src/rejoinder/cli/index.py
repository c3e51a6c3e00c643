"""`rejoinder index`: replies to answer with, encoded; what comes and goes later; the same replies by another model."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rejoinder.cli.approximate import Approximate, Data, Method, Recall, change_search, check_search, describe_search
from rejoinder.cli.options import Address, Json, Overwrite, RunOn, Split, ray_engine, wants_ray
from rejoinder.cli.rankers import open_index, report_truncated
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import track

if TYPE_CHECKING:
    from rejoinder.corpora.engine import Engine
    from rejoinder.retrieval.index import Index
    from rejoinder.retrieval.replies import Candidate
    from rejoinder.retrieval.stores import Store

_MODEL = "A model folder, convert-small; or minilm, use, st:NAME. Not with --delete, --compact."


def index(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="INDEX", help="The index's folder.")],
    model: Annotated[str | None, typer.Argument(help=_MODEL)] = None,
    replies: Annotated[
        Path | None, typer.Argument(help="Text (one reply a line), .jsonl, .csv, or a folder or .parquet of examples.")
    ] = None,
    split: Annotated[Split | None, typer.Option(help="Of examples, only this part.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the first N replies.")] = None,
    deduplicate: Annotated[bool, typer.Option("--deduplicate", help="Only the first of equal texts.")] = False,
    append: Annotated[bool, typer.Option("--append", help="Add to an index that exists.")] = False,
    reencode: Annotated[
        bool, typer.Option("--reencode", help="REPLIES is an index: the same replies and positions, by MODEL.")
    ] = False,
    overwrite: Overwrite = False,
    delete: Annotated[list[int] | None, typer.Option(metavar="POSITION", help="Delete this reply; repeatable.")] = None,
    delete_id: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Delete the replies whose field id is this; repeatable.")
    ] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="Make all that was added one, without the data of what was deleted.")
    ] = False,
    approximate: Approximate = None,
    recall: Recall = None,
    method: Method = None,
    data: Data = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="milvus|http://HOST:19530", help="Replies of a new index in Milvus: a file, or there."),
    ] = None,
    draw: Annotated[
        bool, typer.Option("--map", help="Draw the map that rejoinder serve shows now, not at its first look.")
    ] = False,
    where: RunOn = "local",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Encode replies to answer with. A reply keeps its position, counted from 0, and its line's other fields.

    Example: rejoinder index runs/small/model replies.txt -o replies.index, and later
    rejoinder index runs/small/model more.txt -o replies.index --append, or
    rejoinder index -o replies.index --delete 17 --compact, or, when the model has changed,
    rejoinder index --reencode runs/new/model replies.index -o new.index

    Replies for several machines are in a Milvus server (extra milvus):
    rejoinder index runs/small/model replies.txt -o replies.index --store http://HOST:19530

    Hundreds of thousands of replies are searched faster when not each is looked at (extra ann):
    rejoinder index -o replies.index --approximate --data data/support
    """
    on_ray = wants_ray(where, address)
    check_search(approximate, recall=recall, method=method, data=data)
    if delete or delete_id or compact:
        if model or append or reencode or overwrite or on_ray or draw or approximate is not None:
            raise InputError("--delete and --compact take only -o INDEX; add or overwrite in a call of its own")
        emit(_change(output, delete or [], delete_id or [], compact), as_json, _text)
        return
    if replies is None and (draw or approximate is not None) and not (append or reencode or overwrite or on_ray):
        emit(_finish({}, draw, output, model, approximate, recall, method, data), as_json, _text)
        return
    if model is None or replies is None:
        raise InputError("name a MODEL and its REPLIES, as in: rejoinder index runs/small/model replies.txt -o INDEX")
    _check(append, overwrite, reencode, any((split, limit, deduplicate)), store, bool(approximate or draw))
    source = _Source(replies, split, limit, deduplicate)
    files = [path for path in Path(model).glob("*") if path.is_file()]
    with ray_engine(address, output, files) if on_ray else contextlib.nullcontext() as engine:
        if reencode:
            result = _reencode(model, replies, output, overwrite, engine)
        elif append:
            result = _append(model, source, output, engine)
        else:
            result = _build(model, source, output, store, overwrite, engine)
    emit(_finish(result, draw, output, model, approximate, recall, method, data), as_json, _text)


def _finish(
    result: dict[str, Any], draw: bool, output: Path, model: str | None, approximate: bool | None, *how: Any
) -> dict[str, Any]:
    """Change how an index is searched, draw its map, and return what is told of it."""
    added = result.get("added", 0)
    if approximate is not None:
        result = _describe(change_search(output, model, approximate, *how), added=added)
    if draw:
        from rejoinder.retrieval.index import Index
        from rejoinder.serving.projection import ReplyMap

        found = Index.open(output)
        with track("Drawing the map", unit="replies") as advance:
            advance(len(ReplyMap.draw(found).texts))
        result = _describe(found, added=added)
    return result


def _check(append: bool, overwrite: bool, reencode: bool, chosen: bool, store: str | None, approximate: bool) -> None:
    """Refuse options that do not go together."""
    if append and overwrite:
        raise InputError("--append adds to the index, --overwrite replaces it; give one of them")
    if reencode and (append or chosen):
        raise InputError(
            "--reencode keeps the replies as they are; leave --append, --split, --limit and the like out"
        )
    if store and (append or reencode or approximate):
        raise InputError("--store is of a new index; leave --append, --reencode, --approximate and --map out")


class _Source(NamedTuple):
    """Replies that are read twice: to check and count them, and to encode them."""

    path: Path
    split: Split | None
    limit: int | None
    deduplicate: bool

    def read(self, known: Sequence[str] = ()) -> Iterator[Candidate]:
        """Yield the replies; without duplicates, if asked for, of each other or of what is known."""
        from rejoinder.retrieval.replies import distinct, read_candidates

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
    model: str, source: _Source, output: Path, store: str | None, overwrite: bool, engine: Engine | None
) -> dict[str, Any]:
    from rejoinder.encoders.conversation import track_truncation
    from rejoinder.encoders.open import open_encoder
    from rejoinder.retrieval.index import Index, check_target
    from rejoinder.retrieval.stores import Store

    check_target(output, overwrite=overwrite)
    encoder = track_truncation(open_encoder(model))
    total = source.total()
    options: dict[str, Any] = {"overwrite": overwrite, "engine": engine}
    with track("Encoding", total=total, unit="replies") as advance:
        options["progress"] = advance
        built: Index | Store
        if store:
            built = Store.build(encoder, source.read(), output, store, **options)
        else:
            built = Index.build(encoder, source.read(), output, **options)
    report_truncated(encoder, "replies")
    return _describe(built, added=total)


def _append(model: str, source: _Source, output: Path, engine: Engine | None) -> dict[str, Any]:
    found = open_index(output, model)
    known = [candidate.text for _, candidate in found] if source.deduplicate else []
    with track("Encoding", total=source.total(known), unit="replies") as advance:
        added = found.add(source.read(known), progress=advance, engine=engine)
    report_truncated(found.encoder, "replies")
    return _describe(found, added=len(added))


def _reencode(model: str, old: Path, output: Path, overwrite: bool, engine: Engine | None) -> dict[str, Any]:
    from rejoinder.encoders.conversation import track_truncation
    from rejoinder.encoders.open import open_encoder
    from rejoinder.retrieval.index import Index, check_target

    check_target(output, overwrite=overwrite)
    found, encoder = Index.open(old), track_truncation(open_encoder(model))
    with track("Encoding", total=len(found), unit="replies") as advance:
        made = found.reencode(encoder, output, overwrite=overwrite, progress=advance, engine=engine)
    report_truncated(encoder, "replies")
    return _describe(made, added=len(made))


def _change(output: Path, positions: list[int], ids: list[str], compact: bool) -> dict[str, Any]:
    from rejoinder.retrieval.index import Index
    from rejoinder.retrieval.stores import open_index

    found = open_index(output)
    if compact and not isinstance(found, Index):
        raise InputError(f"{output}: Milvus compacts by itself; leave --compact out")
    by_id: dict[str, list[int]] = {name: [] for name in ids}
    for position, candidate in found if ids else ():
        by_id.get(str(candidate.payload.get("id")), []).append(position)
    if missing := [name for name in ids if not by_id[name]]:
        raise InputError(f"{output} has no reply whose field id is {missing[0]!r}")
    chosen = {*positions, *itertools.chain(*by_id.values())}
    deleted = found.delete(chosen) if chosen else 0
    if not compact or not isinstance(found, Index):
        return _describe(found, deleted=deleted)
    with track("Copying", total=len(found), unit="replies") as advance:
        removed = found.compact(progress=advance)
    return {**_describe(found, deleted=deleted), "removed": removed}


def _describe(found: Index | Store, *, added: int = 0, deleted: int = 0) -> dict[str, Any]:
    return {
        "index": str(found.folder),
        "replies": len(found),
        "added": added,
        "deleted": deleted,
        "size": found.manifest.size,
        "approximate": describe_search(found),
        "bytes": sum(path.stat().st_size for path in found.folder.rglob("*") if path.is_file()),
        "model": found.manifest.model.name,
        "fingerprint": found.fingerprint,
    }


def _text(result: Mapping[str, Any]) -> str:
    facts = [f"{result['added']:,} added"] if 0 < result["added"] != result["replies"] else []
    facts += [f"{result['deleted']:,} deleted"] if result["deleted"] else []
    facts += [f"data of {result['removed']:,} removed"] if result.get("removed") else []
    facts += [f"{result['replies']:,} replies", f"vectors of {result['size']}"]
    if found := result["approximate"]:
        facts += [f"search finds {found['recall']:.1%} of the 30 best ({found['measured_on']:,} contexts)"]
    facts += [f"{result['bytes'] / 1e6:.1f} MB"]
    return f'{result["index"]}: {", ".join(facts)}\nTry: rejoinder reply {result["index"]} "How are you?"'
