"""`rejoinder data`: build examples from corpora and chats."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from rejoinder.cli.arguments import (
    HistoryOption,
    Json,
    Overwrite,
    ProcessesOption,
    Ray,
    SettingsOption,
    check_processes,
    number_or_all,
    ray_engine,
)
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError, is_interrupt
from rejoinder.progress import counted, note, track

if TYPE_CHECKING:
    from rejoinder.cluster.engine import RayEngine
    from rejoinder.corpora.corpus import Corpus, Input
    from rejoinder.corpora.lines import Reading


_SKIP = "--skip-bad 1000 skips and counts up to 1,000 bad lines"

_MAX_NOTES = 20  # below the counts

_FILES = "Files, also .zst, .gz, .bz2 or .xz. The prefix train=, valid= or test= chooses the split."

CorpusName: TypeAlias = Annotated[str, typer.Argument(help="A corpus of `rejoinder list corpora`.")]

Inputs: TypeAlias = Annotated[list[str] | None, typer.Argument(metavar="INPUT...", help=_FILES)]

ExamplesFolder: TypeAlias = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the examples.")
]

_SKIPPED = "Number of bad lines to skip and count; one more stops the build."

SkipBad: TypeAlias = Annotated[
    int | None, typer.Option(parser=number_or_all(0), metavar="N|all", help=_SKIPPED)
]

DryRunOption: TypeAlias = Annotated[
    bool,
    typer.Option("--dry-run", help="Print statistics of the input without writing anything."),
]

MaxExamples: TypeAlias = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Stop after N examples (uses one process).")
]


def data(
    source: CorpusName,
    inputs: Inputs = None,
    output: ExamplesFolder = None,
    settings: SettingsOption = None,
    skip_bad: SkipBad = 0,
    history: HistoryOption = 10,
    dry_run: DryRunOption = False,
    limit: MaxExamples = None,
    processes: ProcessesOption = None,
    ray: Ray = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Build a folder of examples, split by conversation into train, valid and test.

    Duplicates are dropped. A stopped job continues with the same command.

    Example: rejoinder data jsonl chats.jsonl.zst -o data/chats

    Chats exported by a tool: rejoinder data chats result.json -o data/chats

    To see what the file holds first: rejoinder data jsonl chats.jsonl.zst --dry-run

    --set respond=agent takes the messages of that role as responses. --set redact=true replaces
    personal data.
    """
    from rejoinder.corpora.registry.sources import find_corpus, find_inputs, read_settings

    if output is None and not dry_run:
        raise InputError("give -o DIR for the examples, or --dry-run to look at the input")
    check_processes(ray, processes)
    corpus = find_corpus(source)
    values = read_settings(corpus, settings or [])
    files = find_inputs(corpus, inputs or [])
    reading = _reading(skip_bad, history)
    if output is None or dry_run:
        if ray is not None:
            raise InputError("--dry-run reads on this machine; leave --ray out")
        emit(_survey(corpus, files, values, reading, limit), as_json, _survey_text)
        return
    from rejoinder.corpora.pipeline.build import build_data

    paths = [file.path for file in files]
    size = sum(file.size for file in files)
    cluster = None if ray is None else ray_engine(ray, output, paths)
    with _working(source, paths, size, cluster, processes) as at_work, _explained(output):
        summary = build_data(
            corpus,
            inputs or [],
            output,
            settings=values,
            reading=reading,
            limit=limit,
            overwrite=overwrite,
            **at_work,
        )
    is_assigned = all(file.part is not None for file in files)
    show = functools.partial(_summary_text, is_assigned=is_assigned)
    emit({"output": str(output), **summary.to_json()}, as_json, show)


def _reading(skip_bad: int | None, history: int | None) -> Reading:
    from rejoinder.corpora.lines import Reading

    return Reading(
        skip_bad=skip_bad != 0,
        history=history,
        max_bad=skip_bad,
        on_fault=lambda fault: note(f"skipped: {fault}"),
    )


@contextlib.contextmanager
def _working(
    source: str, paths: Sequence[Path], size: int, cluster: RayEngine | None, processes: int | None
) -> Iterator[dict[str, Any]]:
    """Yield the engine, local or a cluster, and its progress in bytes."""
    from rejoinder.engine import local_engine

    total = size if all(path.is_file() for path in paths) else None
    with (
        cluster or local_engine(processes, size) as engine,
        track(f"reading {source}", total, "bytes") as advance,
    ):
        yield {"engine": engine, "progress": advance}


@contextlib.contextmanager
def _explained(output: Path) -> Iterator[None]:
    """Add to an error where finished work is kept, and how to skip bad lines."""
    from rejoinder.corpora.lines import BadLineError
    from rejoinder.corpora.pipeline.work_folder import WorkFolderError, work_folder

    try:
        yield
    except BaseException as error:
        kept = work_folder(output)
        if kept.exists() and not isinstance(error, InputError):
            note(f"rejoinder: finished work is kept in {kept}; the same command continues there")
        elif kept.exists() and not isinstance(error, WorkFolderError):
            note(f"rejoinder: finished work is kept in {kept} as long as no input is changed")
        elif is_interrupt(error):
            note("rejoinder: no step was finished; the same command begins again")
        if isinstance(error, BadLineError):
            raise InputError(f"{error} ({_SKIP})") from error
        raise


def _survey(
    corpus: Corpus, files: Sequence[Input], settings: Any, reading: Reading, limit: int | None
) -> dict[str, Any]:
    """Return what a survey of chats found: who wrote, how much, how many tokens."""
    from rejoinder.corpora.lines import BadLineError
    from rejoinder.corpora.pipeline.survey import survey
    from rejoinder.encoders.bundled import DEFAULT
    from rejoinder.encoders.open import load

    model: Any = load(DEFAULT)

    def measure(texts: Sequence[str]) -> Any:
        _, lengths = model.tokenizer.encode_ragged(texts)
        return lengths

    try:
        with track(f"Reading {corpus.name}", unit="messages") as advance:
            result = survey(corpus, files, settings, reading, measure, limit, advance)
    except BadLineError as error:
        raise InputError(f"{error} ({_SKIP})") from error
    return {
        **result.to_json(model.max_length),
        **asdict(reading.counts()),
        "model": DEFAULT,
        "cut": model.tokenizer.cut,
        "settings": asdict(settings),
    }


def _survey_text(result: Mapping[str, Any]) -> str:
    """Return a survey as lines."""

    def spread(name: str, values: Mapping[str, int]) -> str:
        return (
            f"{name}: {values['median']:,} (median), {values['p95']:,} or less (95 %), "
            f"{values['most']:,} at most"
        )

    def share(part: int, whole: int) -> str:
        return f"{part:,} of {whole:,} ({part / max(whole, 1):.1%})"

    lines = [
        *result["notes"][:_MAX_NOTES],
        f"{counted(result['chats'], 'chat')} with a reply, {result['without_reply']:,} without; "
        f"{counted(result['bad_lines'], 'bad line')} skipped",
        f"{counted(result['examples'], 'example')} with {counted(result['messages'], 'message')}"
        f"{'; consecutive messages of a role are one' if result['roles'] else ''}",
    ]
    lines += [f"left out: {count:,} {reason}" for reason, count in result["dropped"].items()]
    if result["roles"]:
        lines.append(f"messages in the files: {_roles_text(result)}")
    too_long = share(result["too_long"], result["messages"])
    with_personal = share(result["messages_with_personal"], result["messages"])
    personal = ", ".join(f"{count:,} {kind}" for kind, count in result["personal"].items())
    lines += [
        spread("messages a chat", result["messages_a_chat"]),
        spread("subwords a message", result["lengths"]),
        f"{too_long} messages are longer than the {result['longest_read']} subwords that "
        f"{result['model']} reads: the {result['cut']} is cut",
        f"{share(result['not_english'], result['judged_chats'])} chats do not look English",
        f"personal data in {with_personal} messages: {personal}",
    ]
    if result["messages_with_personal"]:
        redacted = result["settings"].get("redact")
        lines.append("it is replaced" if redacted else "--set redact=true replaces it")
    for example in result["shown"]:
        messages = [f"  {message}" for message in example["context"]]
        lines += ["", *messages, f"> {example['response']}"]
    lines += ["", "nothing was written; -o DIR instead of --dry-run builds the examples"]
    return "\n".join(lines)


def _summary_text(summary: Mapping[str, Any], *, is_assigned: bool) -> str:
    """Return a build's summary as lines: counts of each split, drops, and what was cut.

    `is_assigned`: the user chose the split of every input.
    """
    from rejoinder.corpora.pipeline.summary import limits_of_history

    lines = [f"{'split':<6}{'read':>12}{'kept':>12}{'dropped':>12}"]
    for split, counts in summary["splits"].items():
        dropped = sum(counts["dropped"].values())
        line = f"{split:<6}{counts['read']:>12,}{counts['kept']:>12,}{dropped:>12,}"
        if dropped:
            reasons = [f"{number:,} {reason}" for reason, number in counts["dropped"].items()]
            line += f"  ({', '.join(reasons)})"
        lines.append(line)
    unit = "line" if summary["inputs"] and summary["source"] != "chats" else "conversation"
    lines.append(
        f"{counted(summary['lines'], unit)} read, {counted(summary['bad_lines'], 'bad one')} "
        f"skipped, {summary['without_reply']:,} without a reply; "
        f"{counted(summary['blank_messages'], 'blank message')} left out"
    )
    if summary["roles"]:
        lines.append(f"messages: {_roles_text(summary)}")
    if summary["redacted"]:
        lines.append(f"personal data was replaced in {counted(summary['redacted'], 'example')}")
    if summary["cut_contexts"]:
        limits = limits_of_history(summary)
        count = counted(summary["cut_contexts"], "context")
        lines.append(f"{count} lost their oldest messages ({limits})")
    lines += [f"left out: {count:,} {reason}" for reason, count in summary["dropped"].items()]
    lines += [f"note: {text}" for text in summary["notes"][:_MAX_NOTES]]
    more = len(summary["notes"]) - _MAX_NOTES
    if more > 0:
        lines.append(f"note: {more:,} more are in {summary['output']}/data.json")
    emptied = [
        split
        for split, counts in summary["splits"].items()
        if counts["read"] and not counts["kept"]
    ]
    if emptied:
        lines.append(
            f"no example is left in {' and '.join(emptied)}; all that were read were dropped"
        )
    empty = [split for split, counts in summary["splits"].items() if not counts["read"]]
    if empty and not is_assigned:
        lines.append(
            f"no conversation fell into {' and '.join(empty)}; "
            "more conversations are needed for that"
        )
    lines.append(f"examples: {summary['output']}")
    return "\n".join(lines)


def _roles_text(summary: Mapping[str, Any]) -> str:
    """Return the number of messages of each role, and how they were used."""
    from rejoinder.conversations import is_instruction
    from rejoinder.corpora.forms.formats import ChatSettings

    respond = summary["settings"].get("respond", "agent")
    settings = ChatSettings(respond=respond)

    def use(role: str) -> str:
        if is_instruction(role):
            return "left out"
        return "responses" if settings.responds(role) else "context"

    roles = summary["roles"].items()
    return ", ".join(f"{count:,} of {role} ({use(role)})" for role, count in roles)
