"""`rejoinder data`, `corpora` and `corpus`: examples from one corpus, or a pretraining corpus out of many sources."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from rejoinder.cli.options import Address, History, Json, Overwrite, Processes, RunOn, Settings, ray_engine, wants_ray
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import note, track

if TYPE_CHECKING:
    from rejoinder.corpora.corpus import Corpus, Input
    from rejoinder.corpora.lines import Reading

_SKIP = "--skip-bad skips and counts bad lines"
_SHOWN = 20  # most notes below the counts
_FILES = "Files; also .zst, .gz, .bz2 or .xz. train=, valid= or test= before one puts it into that split."
Inputs: TypeAlias = Annotated[list[str] | None, typer.Argument(metavar="INPUT...", help=_FILES)]


def data(
    source: Annotated[str, typer.Argument(help="A corpus; `rejoinder corpora` lists them.")],
    inputs: Inputs = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help="For the examples.")] = None,
    settings: Settings = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip and count bad lines instead of stopping.")] = False,
    max_bad: Annotated[int, typer.Option(min=0, metavar="N", help="With --skip-bad: most bad lines.")] = 1_000,
    history: History = 10,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print statistics of the input without writing anything.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop at N kept examples; one process.")] = None,
    processes: Processes = None,
    where: RunOn = "local",
    address: Address = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Build a folder of examples, split by conversation into train, valid and test. Duplicates are dropped.

    Work that was stopped goes on with the same command. Example: rejoinder data jsonl chats.jsonl.zst -o data/chats

    To see what the file holds, before that: rejoinder data jsonl chats.jsonl.zst --dry-run

    Of chats, --set respond=agent takes that role for responses; --set redact=true replaces personal data.
    """
    from rejoinder.corpora import build, engine, lines, sources, work

    if output is None and not dry_run:
        raise InputError("give -o DIR for the examples, or --dry-run to look at the input")
    on_ray = wants_ray(where, address, processes)
    corpus = sources.find_corpus(source)
    values = sources.read_settings(corpus, settings or [])
    files = sources.find_inputs(corpus, inputs or [])
    size = sum(each.size for each in files)
    total = size if all(each.path.is_file() for each in files) else None
    reading = lines.Reading(skip_bad, history, max_bad=max_bad, on_fault=lambda fault: note(f"skipped: {fault}"))
    if dry_run:
        if on_ray:
            raise InputError("--dry-run reads on this machine; leave --engine out")
        emit(_look(corpus, files, values, reading, limit), as_json, _look_text)
        return
    assert output is not None
    cluster = ray_engine(address, output, (each.path for each in files)) if on_ray else None
    with cluster or engine.local_engine(processes, size) as pool, track(f"reading {source}", total, "bytes") as advance:
        try:
            account = build.build_data(
                corpus, inputs or [], output, settings=values, reading=reading, limit=limit, engine=pool,
                progress=advance, overwrite=overwrite,
            )  # fmt: skip
        except BaseException as error:
            if (kept := work.work_folder(output)).exists() and not isinstance(error, work.WorkFolderError):
                note(f"rejoinder: what is finished is kept in {kept}; the same command goes on from there")
            if isinstance(error, lines.BadLineError):
                raise InputError(f"{error} ({_SKIP})") from error
            raise
    emit({"output": str(output), **account.to_json()}, as_json, _account_text)


def _look(corpus: Corpus, files: Sequence[Input], settings: Any, reading: Reading, limit: int | None) -> dict[str, Any]:
    import rejoinder
    from rejoinder.corpora.lines import BadLineError
    from rejoinder.corpora.survey import survey
    from rejoinder.encoders.bundled import BUNDLED

    name = next(iter(BUNDLED))
    model = rejoinder.load(name)
    try:
        with track(f"Reading {corpus.name}") as advance:
            measure = model.tokenizer.encode_ragged
            found = survey(corpus, files, settings, reading, lambda texts: measure(texts)[1], limit, advance)
    except BadLineError as error:
        raise InputError(f"{error} ({_SKIP})") from error
    about = {"model": name, "cut": model.tokenizer.cut, "settings": asdict(settings)}
    return {**found.to_json(model.max_length), **reading.counts(), **about}


def _look_text(found: Mapping[str, Any]) -> str:
    def spread(what: str, values: Mapping[str, int]) -> str:
        return f"{what}: {values['median']:,} (median), {values['p95']:,} or less (95 %), {values['most']:,} at most"

    def share(part: int, whole: int) -> str:
        return f"{part:,} of {whole:,} ({part / max(whole, 1):.1%})"

    lines = [f"{found['chats']:,} chats, {found['messages']:,} messages, {found['examples']:,} examples"]
    lines += [f"messages: {_roles_text(found)}"] * bool(found["roles"])
    lines += [f"{found['without_reply']:,} chats without a reply, {found['bad_lines']:,} bad lines skipped"]
    lines += [spread("messages a chat", found["messages_a_chat"]), spread("subwords a message", found["lengths"])]
    longer = f"longer than the {found['longest_read']} subwords that {found['model']} reads"
    lines += [f"{share(found['too_long'], found['messages'])} messages are {longer}: the {found['cut']} is cut"]
    lines += [f"{share(found['not_english'], found['judged_chats'])} chats do not look English"]
    personal = ", ".join(f"{count:,} {kind}" for kind, count in found["personal"].items())
    lines += [f"personal data in {share(found['messages_with_personal'], found['messages'])} messages: {personal}"]
    if found["messages_with_personal"]:
        lines += ["it is replaced" if found["settings"].get("redact") else "--set redact=true replaces it"]
    for each in found["shown"]:
        lines += ["", *(f"  {message}" for message in each["context"]), f"> {each['response']}"]
    return "\n".join([*lines, "", "nothing was written; -o DIR instead of --dry-run builds the examples"])


def corpora(
    source: Annotated[str | None, typer.Argument(help="Describe this corpus; none: list all.")] = None,
    as_json: Json = False,
) -> None:
    """List the corpora that `rejoinder data` reads, or describe one: its form, licence, origin and settings.

    Example: rejoinder corpora reddit
    """
    from rejoinder.corpora.sources import CORPORA, find_corpus, settings_of

    if source is None:
        width = max(map(len, CORPORA))
        lines = [f"{name:<{width}}  {corpus.title}" for name, corpus in CORPORA.items()]
        lines += ["", "rejoinder corpora SOURCE describes one."]
        result: dict[str, Any] = {"sources": {name: corpus.title for name, corpus in CORPORA.items()}}
    else:
        corpus, facts = find_corpus(source), ("reads", "licence", "origin", "expected")
        known = {name: getattr(corpus, name) for name in ("name", "title", *facts)}
        settings = settings_of(corpus)
        lines = [f"{corpus.name}: {corpus.title}", *(f"{name:<9} {known[name]}" for name in facts if known[name])]
        lines += ["", "settings (--set NAME=VALUE):" if settings else "no settings"]
        for each in settings:
            lines.append(f"  {each.name}={json.dumps(each.default, default=str)}  ({each.kind})")
            lines.append(f"      {each.meaning}")
        listed = [{"name": s.name, "type": s.kind, "default": s.default, "meaning": s.meaning} for s in settings]
        result = {**known, "settings": listed}
    emit(result, as_json, lambda _: "\n".join(lines))


def _account_text(account: Mapping[str, Any]) -> str:
    from rejoinder.corpora.examples import limits_of_history

    lines = [f"{'split':<6}{'read':>12}{'kept':>12}{'dropped':>12}"]
    for split, counts in account["splits"].items():
        why = ", ".join(f"{number:,} {reason}" for reason, number in counts["dropped"].items())
        dropped = sum(counts["dropped"].values())
        lines.append(f"{split:<6}{counts['read']:>12,}{counts['kept']:>12,}{dropped:>12,}{f'  ({why})' if why else ''}")
    what = "lines" if account["inputs"] else "conversations"
    read = f"{account['lines']:,} {what} read, {account['bad_lines']:,} bad ones skipped"
    blank = f"{account['blank_messages']:,} blank messages left out"
    lines.append(f"{read}, {account['without_reply']:,} without a reply; {blank}")
    if account["roles"]:
        lines.append(f"messages: {_roles_text(account)}")
    if account["redacted"]:
        lines.append(f"personal data was replaced in {account['redacted']:,} examples")
    if account["cut_contexts"]:
        lines.append(f"{account['cut_contexts']:,} contexts lost their oldest messages ({limits_of_history(account)})")
    lines += [f"left out: {count:,} {reason}" for reason, count in account["dropped"].items()]
    lines += [f"note: {note}" for note in account["notes"][:_SHOWN]]
    if (more := len(account["notes"]) - _SHOWN) > 0:
        lines.append(f"note: {more:,} more are in {account['output']}/data.json")
    if empty := [split for split, counts in account["splits"].items() if not counts["kept"]]:
        lines.append(f"no conversation fell into {' and '.join(empty)}; more conversations are needed for that")
    return "\n".join([*lines, f"examples: {account['output']}"])


def _roles_text(account: Mapping[str, Any]) -> str:
    """Say of each role how many messages it has, and what became of them."""
    from rejoinder.conversations import NO_TURNS
    from rejoinder.corpora.formats import ChatSettings

    responds = ChatSettings(**account["settings"]).responds
    counts = account["roles"]
    become = ("left out" if role in NO_TURNS else "responses" if responds(role) else "context" for role in counts)
    return ", ".join(f"{counts[role]:,} of {role} ({place})" for role, place in zip(counts, become, strict=True))


def corpus(
    recipe: Annotated[Path, typer.Argument(help="Sources, filters, evaluation sets: a *.toml file, or corpus/NAME.")],
    inputs: Annotated[Path, typer.Argument(metavar="INPUT_DIR", help="Folder of the sources' files.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="For the corpus.")],
    evaluation: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the evaluation sets that the recipe names.")
    ] = None,
    no_evaluation: Annotated[bool, typer.Option("--no-evaluation", help="Check the held-out tests alone.")] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Build training and validation examples and a test for each source; nothing that is evaluated is trained on.

    Example: rejoinder corpus recipes/corpus/open.toml data/open -o corpus --evaluation data/eval
    """
    from rejoinder.corpora.pretraining.build import build_corpus, markdown, source_files
    from rejoinder.corpora.pretraining.plan import load_corpus_plan
    from rejoinder.settings import find_recipe

    plan = load_corpus_plan(find_recipe(recipe))
    if evaluation is not None and no_evaluation:
        raise InputError("--evaluation and --no-evaluation exclude each other; give one")
    if plan.evaluation and evaluation is None and not no_evaluation:
        leaks = f"{recipe} checks for leaks of {', '.join(each.name for each in plan.evaluation)}"
        raise InputError(f"{leaks}; give their folder with --evaluation DIR, or --no-evaluation")
    size = 2 * sum(file.stat().st_size for file in source_files(plan, inputs))
    with track(f"building {output}", size, "bytes") as advance:
        counts = build_corpus(plan, inputs, output, evaluation=evaluation, progress=advance, overwrite=overwrite)
    emit({"output": str(output), **counts}, as_json, lambda result: f"{markdown(result)}\ncorpus: {output}")
