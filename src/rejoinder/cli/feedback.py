"""`rejoinder feedback` and `report`: the log of an index's use, and what it tells."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rejoinder.cli.options import Json, Settings
from rejoinder.cli.rankers import open_index
from rejoinder.cli.retrieval import IndexFolder, Model
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.files import atomic_file

if TYPE_CHECKING:
    from rejoinder.retrieval.feedback import Entry, FeedbackLog


def feedback(
    folder: IndexFolder,
    settings: Settings = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="JSONL file to write the feedback to."),
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete entries: all, or the selected ones.")
    ] = False,
    before: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="With --delete: entries before a day, as 2026-01-31."),
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --delete: entries of one source.")
    ] = None,
    entry: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="With --delete: an entry by its number; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show, set up, write out or delete the feedback on the replies of an index.

    The log is INDEX.feedback.db beside the index. Settings: redact (true: replace personal data),
    days (365: how long entries are kept), learn (later: a choice becomes an example by `rejoinder
    learn`; at-once: the server makes it one).

    Example: rejoinder feedback replies.index --set days=90
    """
    from rejoinder.retrieval.feedback import FeedbackLog
    from rejoinder.retrieval.manifest import read_manifest
    from rejoinder.settings import parse_setting

    for option, value in (("--before", before), ("--source", source), ("--entry", entry)):
        if value is not None and not delete:
            raise InputError(f"{option} chooses entries to delete; give --delete with it")
    read_manifest(folder)
    log = FeedbackLog(folder)
    day = None if before is None else _seconds(before)
    if settings:
        log.set(**dict(parse_setting(setting, "key=value") for setting in settings))
    written = None if output is None else _write(log, output)
    deleted = log.delete(ids=entry, before=day, source=source) if delete else None
    emit(_describe(log, written, deleted), as_json, _text)


def _seconds(day: str) -> float:
    """Return the beginning of a day on this machine's clock, in seconds since 1970."""
    try:
        return datetime.datetime.fromisoformat(day).astimezone().timestamp()
    except ValueError:
        raise InputError(f"--before {day[:40]!r}: give a day, as 2026-01-31") from None


def _write(log: FeedbackLog, path: Path) -> int:
    """Write what was sent as examples that `rejoinder learn --data` reads; return how many."""
    count = 0
    with atomic_file(path) as part, part.open("w", encoding="utf-8") as file:
        for entry in log:
            if entry.taken != "none":
                file.write(json.dumps(_line(entry), ensure_ascii=False) + "\n")
                count += 1
    return count


def _line(entry: Entry) -> dict[str, Any]:
    return {
        "context": entry.context,
        "response": entry.text or entry.chosen,
        "id": str(entry.id),
        "offered": entry.offered,
        "chosen": entry.chosen,
        "text": entry.text,
        "source": entry.source,
        "time": datetime.datetime.fromtimestamp(entry.time, datetime.UTC).isoformat(),
    }


def _describe(log: FeedbackLog, written: int | None, deleted: int | None) -> dict[str, Any]:
    counts = {"entries": 0, "first": 0, "offered": 0, "unoffered": 0, "text": 0, "none": 0}
    for entry in log:
        counts["entries"] += 1
        counts[entry.taken] += 1
    result = {"log": str(log.path), **counts, "settings": asdict(log.settings())}
    if written is not None:
        result["written"] = written
    if deleted is not None:
        result["deleted"] = deleted
    return result


def _text(result: Mapping[str, Any]) -> str:
    lines = [f"{result['log']}: {result['entries']:,} entries"]
    kinds = {
        "first": "the first reply was taken",
        "offered": "another one that was offered",
        "unoffered": "one that was not offered",
        "text": "something else was sent",
        "none": "nothing was taken",
    }
    lines += [f"  {result[name]:,} {words}" for name, words in kinds.items() if result[name]]
    settings = ", ".join(
        f"{name}={json.dumps(value)}" for name, value in result["settings"].items()
    )
    lines.append(f"settings: {settings}")
    lines += [f"{result['written']:,} written"] if "written" in result else []
    if "deleted" in result:
        lines.append(
            f"{result['deleted']:,} deleted; what was learned from them stays until "
            "`rejoinder learn --forget`"
        )
    return "\n".join(lines)


def report(
    folder: IndexFolder,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="A .html or .md file for the report. Default: the screen.",
        ),
    ] = None,
    model: Model = None,
    as_json: Json = False,
) -> None:
    """Report on the use of an index: what was taken over time, and what it lacks.

    It lists replies that nobody took, replies that answer for each other, and messages for which
    no reply was taken, in groups (extra intents).

    Example: rejoinder report replies.index -o report.html
    """
    from rejoinder.retrieval.index import Index
    from rejoinder.retrieval.usage import usage, usage_document

    if output is not None and output.suffix not in (".html", ".md"):
        raise InputError(f"{output}: name a file that ends in .html or .md")
    opened = open_index(folder, model)
    if not isinstance(opened, Index):
        raise InputError(f"{folder}: replies in Milvus have no feedback; take an index on disk")
    told = usage(opened)
    document = usage_document(folder.name, dict(opened), told)
    if output is not None:
        text = document.html() if output.suffix == ".html" else document.markdown()
        with atomic_file(output) as part:
            part.write_text(text, encoding="utf-8")
    result = {"index": str(folder), **asdict(told)}
    emit(result, as_json, lambda _: document.markdown() if output is None else f"wrote {output}")
