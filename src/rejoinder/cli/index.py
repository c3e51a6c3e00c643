"""`rejoinder index`: build, change, tune and measure indexes of encoded replies."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from rejoinder.cli.arguments import (
    DeviceName,
    EngineOption,
    IndexName,
    Json,
    Overwrite,
    Ray,
    ReplyForm,
    SplitOption,
    ray_engine,
)
from rejoinder.cli.evaluate import evaluate_index
from rejoinder.cli.index_facts import describe, describe_text, describe_verified, note_scores
from rejoinder.cli.models import (
    latest,
    named_model,
    open_index,
    report_language,
    report_truncated,
)
from rejoinder.cli.reply_files import ReplyDryRun, ReplyFile, survey_text
from rejoinder.cli.shell import Command, Group, emit, guarded
from rejoinder.errors import InputError
from rejoinder.progress import Advance, note, track

if TYPE_CHECKING:
    from rejoinder.encoders.engines import EngineName
    from rejoinder.engine import Engine
    from rejoinder.retrieval.index import Index
    from rejoinder.stores.store import Store

RECALL = 0.95
CONTEXTS = 1000
EncoderOption: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A model folder, bi-small; or use, e5 (languages), minilm, st:NAME."
    ),
]
Replies: TypeAlias = Annotated[
    Path,
    typer.Argument(
        help="A list, table, FAQ or export of replies (`rejoinder list formats`), or a data folder."
    ),
]
WHERE = "Folder to write, or postgresql://HOST/DB?index=NAME."
NewIndex: TypeAlias = Annotated[str, typer.Option("-o", "--output", metavar="INDEX", help=WHERE)]
PartOf: TypeAlias = Annotated[
    SplitOption | None, typer.Option("--split", help="Split of a folder of examples.")
]
First: TypeAlias = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N replies.")
]
Deduplicate: TypeAlias = Annotated[
    bool, typer.Option("--deduplicate", help="Only the first of equal texts.")
]
OutputOrNone: TypeAlias = Annotated[
    str | None, typer.Option("-o", "--output", metavar="INDEX", help=WHERE)
]
MethodOption: TypeAlias = Literal["hnsw", "ivf", "scan", "exact"]
FEW_REPLIES = 3_000  # that ONNX programs encode before PyTorch would have started

index = typer.Typer(
    name="index",
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Indexes of encoded replies: build, change, tune, verify, evaluate.",
    epilog="Example: rejoinder index build runs/small/model replies.txt -o replies.index",
)


StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="milvus|http://HOST:19530",
        help="Keep the replies of the folder in Milvus: a file or a server.",
    ),
]
AsWritten: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--as-written",
        help="Encode salutations, placeholders and markup of canned replies too.",
    ),
]


def _next_bar(
    bars: contextlib.ExitStack, description: str, total: int | None, unit: str
) -> contextlib.AbstractContextManager[Advance]:
    """Show the progress of the next part of the work, after the one before."""
    bars.close()
    return track(description, total, unit)


def build(
    model: EncoderOption,
    replies: Replies,
    output: OutputOrNone = None,
    settings: ReplyForm = None,
    dry_run: ReplyDryRun = False,
    split: PartOf = None,
    limit: First = None,
    deduplicate: Deduplicate = False,
    store: StoreOption = None,
    as_written: AsWritten = False,
    overwrite: Overwrite = False,
    ray: Ray = None,
    device: DeviceName = "auto",
    engine: EngineOption = "auto",
    as_json: Json = False,
) -> None:
    """Encode replies, with their titles and example questions, as an index.

    The file's format is detected. A reply keeps its position, counted from 0, and the other fields
    of its line or row.

    Example: rejoinder index build runs/small/model replies.txt -o replies.index

    To see what the file holds first: rejoinder index build bi-small faq.xlsx --dry-run

    To share replies between machines, keep them in PostgreSQL with pgvector (extra postgres):
    rejoinder index build bi-small replies.txt -o "postgresql://HOST/DB?index=support"
    """
    from rejoinder.corpora.registry.reply_settings import parse_settings
    from rejoinder.encoders.conversation import track_truncation
    from rejoinder.encoders.open import open_encoder
    from rejoinder.retrieval.index import Index

    source = ReplyFile(replies, split, limit, deduplicate, parse_settings(settings))
    if dry_run:
        emit(source.survey(), as_json, survey_text)
        return
    if output is None:
        raise InputError("give -o INDEX for the folder to write, or --dry-run to look at the file")
    with _cluster(ray, output, model, engine) as cluster:
        target = _place(output, store)
        target.check_free(overwrite=overwrite)
        total = source.total()
        light = total is not None and total <= FEW_REPLIES
        opened = open_encoder(model, engine=engine, light=light, device=device)
        encoder = track_truncation(opened)
        options: dict[str, Any] = {
            "overwrite": overwrite,
            "as_written": as_written,
            "engine": cluster,
        }
        with contextlib.ExitStack() as bars:
            options["progress"] = bars.enter_context(track("Encoding", total, "replies"))
            options["phases"] = partial(_next_bar, bars)
            built = Index.build(encoder, source.read(), target, **options)
    report_truncated(encoder, "replies")
    _report_language(model, built)
    emit(describe(built, added=total), as_json, describe_text)


def _place(output: str, milvus: str | None) -> Store:
    """Return the store of a new index."""
    from rejoinder.stores.address import store_of

    if milvus is None:
        return store_of(output)
    from rejoinder.stores.milvus.collections import EMBEDDED, SERVER
    from rejoinder.stores.milvus.store import MilvusStore

    if milvus != EMBEDDED:
        if not milvus.startswith(("http://", "https://")):
            raise InputError(f"--store {milvus}: it is {EMBEDDED}, or a server's http://HOST:19530")
        if os.environ.get(SERVER) != milvus:
            note(f"set {SERVER}={milvus} wherever this index is opened")
    return MilvusStore(output, milvus)


def _report_language(model: str, built: Index) -> None:
    """Note that a model reads English alone, and most of the replies are not English."""
    texts = (reply.text for _, reply in built.candidates())
    report_language(
        [model],
        texts,
        "replies",
        "index them with e5 or use (extra languages): rejoinder index build e5 ...",
    )


def add(
    folder: IndexName,
    replies: Replies,
    settings: ReplyForm = None,
    deduplicate: Annotated[
        bool,
        typer.Option("--deduplicate", help="Skip duplicates of each other and of the index."),
    ] = False,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Put replies in the place of those with their id."),
    ] = False,
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Add replies to an index, encoded by its model.

    Example: rejoinder index add replies.index more.txt
    """
    from rejoinder.corpora.registry.reply_settings import parse_settings
    from rejoinder.retrieval.replacement import KnownReplies, replace_replies
    from rejoinder.stores.address import store_of

    source = ReplyFile(replies, None, None, deduplicate, parse_settings(settings))
    named = named_model() or ""
    if ray is not None and not named:
        store = store_of(folder)
        named = store.read_manifest().model.locate(store)
    with _cluster(ray, folder, named) as cluster:
        opened = open_index(folder)
        known = [candidate.text for _, candidate in opened] if deduplicate else []
        with (
            track("Encoding", total=source.total(known), unit="replies") as advance,
            latest(opened),
        ):
            before = opened.manifest
            options: dict[str, Any] = {"progress": advance, "engine": cluster}
            if replace:
                plan = replace_replies(opened, source.read(known), **options)
                counts = {"added": len(plan.added), "replaced": len(plan.changes)}
                notes = plan.notes()
            else:
                replies_known = KnownReplies(opened)
                new = replies_known.watch(source.read(known))
                counts = {"added": len(opened.add(new, **options))}
                notes = replies_known.notes()
    for text in notes:
        note(text)
    note_scores(before, opened.manifest)
    report_truncated(opened.encoder, "replies")
    emit(describe(opened, **counts), as_json, describe_text)


def delete(
    folder: IndexName,
    positions: Annotated[
        list[int] | None,
        typer.Argument(metavar="POSITION...", help="Positions, as `reply` shows them."),
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="Replies with this id; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Delete replies, by position or by their field id. The others keep their positions.

    Example: rejoinder index delete replies.index 17 --id parking
    """
    from rejoinder.retrieval.index import Index
    from rejoinder.retrieval.replacement import id_of
    from rejoinder.stores.address import store_of

    if not positions and not ids:
        raise InputError(
            "name positions to delete, as in"
            f" `rejoinder index delete {shlex.quote(str(store_of(folder)))} 17`, or --id ID"
        )
    opened = Index.open(folder)
    with latest(opened):
        by_id: dict[str, list[int]] = {name: [] for name in ids or ()}
        for position, candidate in opened if ids else ():
            by_id.get(id_of(candidate), []).append(position)
        if missing := [name for name, having in by_id.items() if not having]:
            raise InputError(f"{opened.store} has no reply with the id {missing[0]!r}")
        deleted = opened.delete({*(positions or ()), *itertools.chain(*by_id.values())})
    emit(describe(opened, deleted=deleted), as_json, describe_text)


def compact(folder: IndexName, as_json: Json = False) -> None:
    """Merge added replies, and drop the data of deleted ones. Positions stay.

    Example: rejoinder index compact replies.index
    """
    from rejoinder.retrieval.index import Index

    opened = Index.open(folder)
    with latest(opened), track("Copying", total=len(opened), unit="replies") as advance:
        removed = opened.compact(progress=advance)
    emit({**describe(opened), "removed": removed}, as_json, describe_text)


def reencode(
    folder: IndexName,
    model: EncoderOption,
    output: NewIndex,
    overwrite: Overwrite = False,
    ray: Ray = None,
    device: DeviceName = "auto",
    engine: EngineOption = "auto",
    as_json: Json = False,
) -> None:
    """Write a new index of the same replies, at the same positions, encoded by another model.

    Example: rejoinder index reencode replies.index runs/new/model -o new.index
    """
    from rejoinder.curation.feedback import FeedbackLog
    from rejoinder.encoders.conversation import track_truncation
    from rejoinder.encoders.open import open_encoder
    from rejoinder.retrieval.index import Index
    from rejoinder.stores.address import store_of

    with _cluster(ray, output, model, engine) as cluster:
        store = store_of(output)
        store.check_free(overwrite=overwrite)
        opened = Index.open(folder)
        light = len(opened) <= FEW_REPLIES
        plain_encoder = open_encoder(model, engine=engine, light=light, device=device)
        encoder = track_truncation(plain_encoder)
        with track("Encoding", total=len(opened), unit="replies") as advance:
            made = opened.reencode(
                encoder, store, overwrite=overwrite, progress=advance, engine=cluster
            )
    report_truncated(encoder, "replies")
    if FeedbackLog(store).take_settings(FeedbackLog(opened.store)):
        note(
            f"feedback and changes stay with {opened.store}; the new index has the settings of its "
            "log"
        )
    emit(describe(made, added=len(made)), as_json, describe_text)


def tune(
    folder: IndexName,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA", help="Conversations to tune with. Default: texts of the replies."
        ),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(metavar="R", help=f"Wanted recall of the 30 best replies. Default: {RECALL}."),
    ] = None,
    method: Annotated[
        MethodOption | None,
        typer.Option(
            help="Graph, clusters, 8-bit scan, or exact again. Default: hnsw; ivf above 5M replies."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make the search of a large index approximate, and measure it (extra ann).

    --method exact undoes it.

    Example: rejoinder index tune replies.index --data data/support
    """
    from rejoinder.corpora.forms.examples import read_examples
    from rejoinder.evaluation.tasks import sample
    from rejoinder.retrieval.index import Index

    if method == "exact":
        for option, value in (("--data", data), ("--recall", recall)):
            if value is not None:
                raise InputError(f"--method exact finds all; leave {option} out")
        opened = Index.open(folder)
        with latest(opened):
            opened.exact()
        emit(describe(opened), as_json, describe_text)
        return
    tuned = open_index(folder)
    tuned.store.check_candidates()
    contexts = None
    if data is not None:
        with track(f"Reading {data}") as advance:
            part = read_examples(data, "valid" if data.is_dir() else None)
            contexts = [example.context for example in sample(part, CONTEXTS, progress=advance)]
    with latest(tuned):
        tuned.approximate(
            RECALL if recall is None else recall, contexts, method=method, track=track
        )
    if data is None:
        note("tuned and measured with texts of the replies; --data names real contexts")
    emit(describe(tuned), as_json, describe_text)


def verify(folder: IndexName, as_json: Json = False) -> None:
    """Check all files of an index against their digests. Opening an index checks small files only.

    Example: rejoinder index verify replies.index
    """
    from rejoinder.retrieval.index import Index

    opened = Index.open(folder, verify=True)
    emit({**describe(opened), "verified": describe_verified(opened)}, as_json, describe_text)


@contextlib.contextmanager
def _cluster(
    ray: str | None, output: str, model: str, engine: EngineName = "auto"
) -> Iterator[Engine | None]:
    """Yield the engine of a Ray cluster, or None."""
    if ray is None:
        yield None
        return
    if engine != "auto":
        raise InputError("--engine is for this machine; each node of a Ray cluster takes its own")
    files = [path for path in Path(model).glob("*") if path.is_file()]
    with ray_engine(ray, Path(output), files) as cluster:
        yield cluster


COMMANDS: dict[str, Callable[..., None]] = {
    "build": build,
    "add": add,
    "delete": delete,
    "compact": compact,
    "reencode": reencode,
    "tune": tune,
    "verify": verify,
    "evaluate": evaluate_index,
}
for _name, _verb in COMMANDS.items():
    index.command(_name, cls=Command)(guarded(_verb))
