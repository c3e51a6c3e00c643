"""`rejoinder data`: build examples from a corpus."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import track

_SHOWN_FAULTS = 20


def data(
    source: Annotated[str, typer.Argument(help="chitchat (no INPUT), jsonl or csv.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the examples.")],
    inputs: Annotated[
        list[Path] | None, typer.Argument(metavar="INPUT...", help="Files; also .zst, .gz, .bz2 or .xz.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip and count bad lines instead of stopping.")] = False,
    history: Annotated[int, typer.Option(min=0, help="Messages kept before the newest one of a context.")] = 10,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop when so many examples are kept.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Build a folder of examples, split by conversation into train, valid and test. Duplicates are dropped.

    Example: rejoinder data jsonl chats.jsonl.zst -o data/chats
    """
    from rejoinder.corpora.build import build_data
    from rejoinder.corpora.lines import BadLineError, Reading
    from rejoinder.corpora.sources import check_source

    paths = inputs or []
    check_source(source, paths)
    total, unit = (_size(paths), "bytes") if paths else (None, "examples")
    with track(f"reading {source}", total, unit) as advance:
        reading = Reading(skip_bad, history, on_bytes=advance if paths else None, on_fault=_Faults())
        try:
            account = build_data(
                source, paths, output, reading=reading, limit=limit, progress=None if paths else advance
            )
        except BadLineError as error:
            raise InputError(f"{error} (--skip-bad skips and counts bad lines)") from error
    emit({"output": str(output), **account.to_json()}, as_json, _text)


def _size(paths: Sequence[Path]) -> int | None:
    """Bytes of all files together; None if one is a pipe, whose size nobody knows."""
    return sum(path.stat().st_size for path in paths) if all(path.is_file() for path in paths) else None


class _Faults:
    """Shows the first bad lines that are skipped; the summary counts all."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, fault: str) -> None:
        self._count += 1
        if self._count <= _SHOWN_FAULTS:
            sys.stderr.write(f"skipped: {fault}\n")
        elif self._count == _SHOWN_FAULTS + 1:
            sys.stderr.write("more bad lines are skipped and counted\n")


def _text(account: Mapping[str, Any]) -> str:
    """The account for people."""
    lines = [f"{'split':<6}{'read':>12}{'kept':>12}{'dropped':>12}"]
    for split, counts in account["splits"].items():
        why = ", ".join(f"{number:,} {reason}" for reason, number in counts["dropped"].items())
        dropped = sum(counts["dropped"].values())
        lines.append(f"{split:<6}{counts['read']:>12,}{counts['kept']:>12,}{dropped:>12,}{f'  ({why})' if why else ''}")
    what = "lines" if account["inputs"] else "conversations"
    lines.append(
        f"{account['lines']:,} {what} read, {account['bad_lines']:,} bad ones skipped, "
        f"{account['without_reply']:,} without a reply; {account['blank_messages']:,} blank messages left out"
    )
    lines += [f"note: {note}" for note in account["notes"]]
    empty = [split for split, counts in account["splits"].items() if not counts["kept"]]
    if empty:
        lines.append(f"no conversation fell into {' and '.join(empty)}; more conversations are needed for that")
    return "\n".join([*lines, f"examples: {account['output']}"])
