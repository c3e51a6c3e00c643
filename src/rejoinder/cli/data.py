"""`rejoinder data`: build examples from a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rejoinder.cli.engines import AddressOption, EngineOption, ray_engine, wants_ray
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import note, track

_SHOWN_FAULTS = 20


def data(
    source: Annotated[str | None, typer.Argument(help="A corpus; --about lists them.")] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT...",
            help="Files; also .zst, .gz, .bz2 or .xz. train=, valid= or test= before one puts it into that split.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the examples.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the corpus; repeatable.")
    ] = None,
    about: Annotated[bool, typer.Option("--about", help="Show the corpora, or all about SOURCE.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip and count bad lines instead of stopping.")] = False,
    max_bad: Annotated[int, typer.Option(min=0, help="With --skip-bad: stop when more lines are bad.")] = 1_000,
    history: Annotated[
        str, typer.Option(metavar="N|all", help="Messages kept before the newest one of a context.")
    ] = "10",
    limit: Annotated[int | None, typer.Option(min=1, help="Stop at this many kept examples; one process.")] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as there are cores, or as pay off, if not given.")
    ] = None,
    where: EngineOption = None,
    address: AddressOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace examples that another command made.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Build a folder of examples, split by conversation into train, valid and test. Duplicates are dropped.

    Work that was stopped goes on with the same command. Example: rejoinder data jsonl chats.jsonl.zst -o data/chats
    """
    from rejoinder.corpora.build import build_data
    from rejoinder.corpora.engine import local_engine
    from rejoinder.corpora.lines import BadLineError, Reading
    from rejoinder.corpora.sources import find_corpus, find_inputs, read_settings
    from rejoinder.corpora.work import WorkFolderError, work_folder

    if about:
        show_about(source, as_json)
        return
    if source is None or output is None:
        raise InputError("give a SOURCE and -o DIR, or --about for a list of the corpora")
    kept = _history(history)
    on_ray = wants_ray(where, address)
    if on_ray and processes is not None:
        raise InputError("--processes is for this machine; a Ray cluster uses the CPUs that its nodes offer")
    corpus = find_corpus(source)
    values = read_settings(corpus, settings or [])
    files = find_inputs(corpus, inputs or [])
    size = sum(each.size for each in files)
    known = all(each.path.is_file() for each in files)
    shown = track(f"reading {source}", size if known else None, "bytes")
    cluster = ray_engine(address, output, (each.path for each in files)) if on_ray else None
    with cluster or local_engine(processes, size) as engine, shown as advance:
        reading = Reading(skip_bad, kept, max_bad=max_bad, on_fault=_Faults())
        try:
            account = build_data(
                corpus,
                inputs or [],
                output,
                settings=values,
                reading=reading,
                limit=limit,
                engine=engine,
                progress=advance,
                overwrite=overwrite,
            )
        except BaseException as error:
            if (work := work_folder(output)).exists() and not isinstance(error, WorkFolderError):
                note(f"rejoinder: what is finished is kept in {work}; the same command goes on from there")
            if isinstance(error, BadLineError):
                raise InputError(f"{error} (--skip-bad skips and counts bad lines)") from error
            raise
    emit({"output": str(output), **account.to_json()}, as_json, _text)


def _history(text: str) -> int | None:
    """N, or None for all."""
    if text == "all":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InputError(f"--history must be a number from 0 on, or all, not {text[:40]!r}")
    return int(text)


def show_about(source: str | None, as_json: bool) -> None:
    """Print the list of corpora, or all that is known of one."""
    from rejoinder.corpora.sources import CORPORA, find_corpus, settings_of

    if source is None:
        emit({"sources": {name: corpus.title for name, corpus in CORPORA.items()}}, as_json, _list_text)
        return
    corpus = find_corpus(source)
    names = ("name", "title", "reads", "licence", "origin", "expected")
    known = {name: getattr(corpus, name) for name in names}
    options = [
        {"name": each.name, "type": each.kind, "default": each.default, "meaning": each.meaning}
        for each in settings_of(corpus)
    ]
    emit({**known, "settings": options}, as_json, _about_text)


def _list_text(result: Mapping[str, Any]) -> str:
    width = max(map(len, result["sources"]))
    lines = [f"{name:<{width}}  {title}" for name, title in result["sources"].items()]
    return "\n".join([*lines, "", "rejoinder data SOURCE --about describes one."])


def _about_text(result: Mapping[str, Any]) -> str:
    import json

    lines = [f"{result['name']}: {result['title']}"]
    lines += [f"{name:<9} {result[name]}" for name in ("reads", "licence", "origin", "expected") if result[name]]
    lines += ["", "settings (--set NAME=VALUE):" if result["settings"] else "no settings"]
    for each in result["settings"]:
        lines.append(f"  {each['name']}={json.dumps(each['default'], default=str)}  ({each['type']})")
        lines.append(f"      {each['meaning']}")
    return "\n".join(lines)


class _Faults:
    """Shows the first bad lines that are skipped; the summary counts all."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, fault: str) -> None:
        self._count += 1
        if self._count <= _SHOWN_FAULTS:
            note(f"skipped: {fault}")
        elif self._count == _SHOWN_FAULTS + 1:
            note("more bad lines are skipped and counted")


def _text(account: Mapping[str, Any]) -> str:
    """Return the account as text."""
    from rejoinder.corpora.account import limits_of_history

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
    if account["cut_contexts"]:
        lines.append(f"{account['cut_contexts']:,} contexts lost their oldest messages ({limits_of_history(account)})")
    lines += [f"left out: {count:,} {reason}" for reason, count in account["dropped"].items()]
    lines += [f"note: {note}" for note in account["notes"][:_SHOWN_FAULTS]]
    if (more := len(account["notes"]) - _SHOWN_FAULTS) > 0:
        lines.append(f"note: {more:,} more are in {account['output']}/data.json")
    empty = [split for split, counts in account["splits"].items() if not counts["kept"]]
    if empty:
        lines.append(f"no conversation fell into {' and '.join(empty)}; more conversations are needed for that")
    return "\n".join([*lines, f"examples: {account['output']}"])
