"""`rejoinder mine`, `learn`, `feedback`, `report`: replies from chats, learning from use."""

from __future__ import annotations

import datetime
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rejoinder.cli.arguments import (
    DeviceName,
    IndexName,
    Json,
    Overwrite,
    SettingsOption,
)
from rejoinder.cli.index_facts import describe, describe_text, note_scores
from rejoinder.cli.models import latest, named_model, open_index
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.progress import counted, no_track, note, track

if TYPE_CHECKING:
    from rejoinder.corpora.schema import Example
    from rejoinder.curation.erasure import Erased
    from rejoinder.curation.feedback import Entry, FeedbackLog
    from rejoinder.stores.store import Store

_SHOWN = 10  # replies, and groups without one


def mine(
    chats: Annotated[
        list[Path],
        typer.Argument(
            metavar="CHATS...",
            help="Exports of chats (`rejoinder list formats`), or folders of examples.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File to write: .csv to review, or .jsonl."
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Encoder that groups messages by meaning. Default: bi-small.",
        ),
    ] = None,
    most: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of replies.")] = 200,
    least: Annotated[
        int, typer.Option(min=1, metavar="N", help="Minimum number of messages per reply.")
    ] = 3,
    settings: SettingsOption = None,
    device: DeviceName = "auto",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Find canned replies in old chats: messages that agents repeat, and what they answer.

    Personal data and names are replaced. --set agent=NAME names the agent, as for `data chats`.

    Review a table in a spreadsheet: edit a text, delete a row to drop it, give two rows the same
    text to merge them. Then: rejoinder index build bi-small replies.csv -o replies.index

    Example: rejoinder mine whatsapp.zip -o replies.csv
    """
    from rejoinder.corpora.registry.sources import find_corpus, parse_settings
    from rejoinder.curation import mining
    from rejoinder.curation.mined_file import check_output, write_replies
    from rejoinder.encoders.bundled import DEFAULT
    from rejoinder.encoders.open import open_encoder

    check_output(output, overwrite=overwrite)
    encoder = open_encoder(model or DEFAULT, device=device)
    with track("Reading chats", unit="messages") as advance:
        mined = mining.mine(
            chats,
            encoder,
            most=most,
            least=least,
            settings=parse_settings(find_corpus("chats"), settings or []),
            progress=advance,
            note=note,
        )
    write_replies(mined, output, overwrite=overwrite)
    result = {
        "output": str(output),
        "messages": mined.messages,
        "replies": len(mined.replies),
        "curve": [{"replies": count, "covered": share} for count, share in mined.curve()],
        "shown": [reply.to_json() for reply in mined.replies[:_SHOWN]],
        "uncovered": [{"text": text, "count": count} for text, count in mined.uncovered],
    }
    emit(result, as_json, _mined_text)


def _mined_text(result: Mapping[str, Any]) -> str:
    lines = [
        f"{reply['count']:>7,}  {reply['text'].replace(chr(10), ' ')[:100]}"
        for reply in result["shown"]
    ]
    lines += ["", *(_share(**point) for point in result["curve"])]
    if result["uncovered"]:
        lines += ["", "largest groups without a reply:"]
        lines += [
            f"{group['count']:>7,}  {group['text'].replace(chr(10), ' ')[:100]}"
            for group in result["uncovered"][:_SHOWN]
        ]
    lines += [
        "",
        f"{counted(result['replies'], 'reply', 'replies')} of"
        f" {counted(result['messages'], 'message')}: {result['output']}",
    ]
    return "\n".join(lines)


def _share(replies: int, covered: float) -> str:
    verb = "covers" if replies == 1 else "cover"
    return f"{replies:>7,} {verb} {covered:.0%} of the messages"


def learn(
    folder: IndexName,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA",
            help="Chats with sent replies. Default: only feedback.",
        ),
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Remove everything learned.")] = False,
    device: DeviceName = "auto",
    as_json: Json = False,
) -> None:
    """Learn from chats and feedback what replies answer, in seconds.

    If a message is a reply of the index (the same words, filled-in placeholders, or a
    near-duplicate), the conversation before it becomes an example of that reply. So does a
    conversation in which a reply was chosen (`rejoinder feedback`).

    Example: rejoinder learn replies.index --data data/support
    """
    from rejoinder.corpora.forms.examples import read_examples
    from rejoinder.curation import learning
    from rejoinder.curation.feedback import FeedbackLog
    from rejoinder.evaluation.tasks import sample

    if forget and data is not None:
        raise InputError("--forget removes examples; leave --data out, or learn afterwards")
    opened = open_index(folder, device=device)
    log = FeedbackLog(opened.store)
    before = opened.manifest
    if forget:
        with latest(opened):
            forgotten = learning.forget(opened, log)
        note_scores(before, opened.manifest)
        emit({**describe(opened), "forgotten": forgotten}, as_json, _learned_text)
        return
    chats: list[Example] = []
    if data is not None:
        with track(f"Reading {data}") as advance:
            chats = sample(read_examples(data), None, progress=advance)
    shown = no_track if data is None else track
    with shown("Comparing", len(chats), "messages") as advance:
        tuned = opened.manifest.approximate
        with latest(opened):
            learned = learning.learn(opened, log, chats, progress=advance)
    if tuned and opened.manifest.approximate is None:
        tune = f"`rejoinder index tune {shlex.quote(str(opened.store))}`"
        note(f"search is exact again; {tune} makes it approximate")
    note_scores(before, opened.manifest)
    if learned.is_worse:
        undo = f"`rejoinder learn {shlex.quote(str(opened.store))} --forget`"
        note(
            "the index is worse on the messages left out, fewer find their reply first than"
            f" before; {undo} removes all that was learned"
        )
    emit({**describe(opened), "learned": asdict(learned)}, as_json, _learned_text)


def _learned_text(result: Mapping[str, Any]) -> str:
    """Return what was learned as lines."""
    if "forgotten" in result:
        forgotten = counted(result["forgotten"], "learned example was", "learned examples were")
        return f"{forgotten} taken away\n{describe_text(result)}"
    learned = result["learned"]
    lines = []
    if learned["messages"]:
        share = learned["matched"] / learned["messages"]
        lines.append(
            f"{learned['matched']:,} of {counted(learned['messages'], 'message')} ({share:.0%})"
            f" {'is a reply' if learned['matched'] == 1 else 'are replies'} of the index"
        )
        lines.append(f"{counted(len(learned['unsent']), 'reply was', 'replies were')} never sent")
    if learned["chosen"]:
        chosen = counted(learned["chosen"], "choice counts", "choices count")
        lines.append(f"{chosen} of the feedback")
    if learned["messages"] or learned["chosen"]:
        lines.append(f"{counted(learned['examples'], 'example is', 'examples are')} new")
    else:
        is_fitted = learned["is_fitted"]
        state = "the replies are fitted again" if is_fitted else "the index stays as it is"
        lines.append(f"no feedback to learn from; {state}")
    if learned["held_out"]:
        lines.append(
            f"of {learned['held_out']:,} that were left out, the reply that was sent is among"
        )
        lines += [
            f"  the first {k}: {learned['before'][k]:.1%} before, {learned['after'][k]:.1%} after"
            for k in learned["before"]
        ]
    return "\n".join([*lines, describe_text(result)])


def feedback(
    folder: IndexName,
    settings: SettingsOption = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="JSONL file to write the feedback to."),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option(
            metavar="all|before=DAY|source=NAME|N",
            help="Entries to delete: those for which all conditions hold; N: an entry's number.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show, configure, export or delete the feedback on an index's replies.

    The log is INDEX.feedback.db beside a folder, or in the database of the index. Settings: redact
    (true: replace personal data), days (365: how long entries are kept), learn (later: `rejoinder
    learn` turns choices into examples; at-once: the server does).

    Example: rejoinder feedback replies.index --set days=90

    Deleting also removes the examples that were learned from the entries, from the replies and from
    the log of changes.

    To delete the old entries of one source: rejoinder feedback replies.index --delete source=anna
    --delete before=2026-01-31
    """
    from rejoinder.curation.feedback import FeedbackLog
    from rejoinder.settings import parse_setting
    from rejoinder.stores.address import store_of

    conditions = _conditions(delete or [])
    store = store_of(folder)
    store.read_manifest()
    log = FeedbackLog(store)
    if settings:
        log.set(**dict(parse_setting(setting, "key=value") for setting in settings))
    written = None if output is None else _write_examples(log, output)
    erased = _erase(store, conditions) if delete else None
    emit(_describe_log(log, written, erased), as_json, _feedback_text)


def _erase(store: Store, conditions: Mapping[str, Any]) -> Erased:
    from rejoinder.curation.erasure import erase
    from rejoinder.curation.feedback import FeedbackLog
    from rejoinder.encoders.open import open_encoder
    from rejoinder.retrieval.index import Index

    opened = Index.open(store)
    if (model := named_model()) is not None:  # else it is opened if a reply has to change
        opened.use(open_encoder(model))
    return erase(opened, FeedbackLog(store), **conditions)


def _conditions(words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of `FeedbackLog.delete`."""
    conditions: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        if word == "all" and len(words) == 1:
            return {}
        if word.isascii() and word.isdecimal() and len(word) < 19:
            conditions.setdefault("ids", []).append(int(word))
        elif name in ("before", "source") and value and name not in conditions:
            conditions[name] = _seconds(value) if name == "before" else value
        else:
            raise InputError(
                f"--delete {word[:40]!r}: give all alone, or before=DAY and source=NAME once and"
                " numbers of entries"
            )
    return conditions


def _seconds(day: str) -> float:
    """Return the beginning of a day on this machine's clock, in seconds since 1970."""
    try:
        return datetime.datetime.fromisoformat(day).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):  # the latter two: out of a clock's range
        raise InputError(f"before={day[:40]!r}: give a day, such as 2026-01-31") from None


def _write_examples(log: FeedbackLog, path: Path) -> int:
    """Write sent replies as examples for `rejoinder learn --data`; return their number."""
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


def _describe_log(log: FeedbackLog, written: int | None, erased: Erased | None) -> dict[str, Any]:
    counts = {"entries": 0, "first": 0, "offered": 0, "unoffered": 0, "text": 0, "none": 0}
    for entry in log:
        counts["entries"] += 1
        counts[entry.taken] += 1
    result = {"log": str(log.database.shown), **counts, "settings": asdict(log.settings())}
    if written is not None:
        result["written"] = written
    if erased is not None:
        result["deleted"] = erased.entries
        result["erased"] = asdict(erased)
    return result


def _feedback_text(result: Mapping[str, Any]) -> str:
    """Return a log's counts and settings as lines."""
    lines = [f"{result['log']}: {counted(result['entries'], 'entry', 'entries')}"]
    kinds = {
        "first": "the first reply was taken",
        "offered": "another offered reply was taken",
        "unoffered": "a reply was taken that was not offered",
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
        erased = result["erased"]
        lines.append(
            f"{erased['entries']:,} deleted, with"
            f" {counted(erased['examples'], 'learned example')} of replies and their traces in"
            f" {counted(erased['changes'], 'change')}"
        )
        if erased["left"]:
            positions = ", ".join(map(str, erased["left"]))
            lines.append(
                "the same words are left where somebody wrote them: examples of the replies"
                f" {positions}"
            )
    return "\n".join(lines)


def report(
    folder: IndexName,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="A .html or .md file for the report. Default: the screen.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Report on the use of an index: how often replies are taken, and which are missing.

    It lists replies that nobody took, replies taken in place of each other, and groups of messages
    for which no reply was taken (extra intents).

    Example: rejoinder report replies.index -o report.html
    """
    from rejoinder.curation.feedback import FeedbackLog
    from rejoinder.curation.usage import usage
    from rejoinder.curation.usage_report import usage_document

    if output is not None and output.suffix not in (".html", ".md"):
        raise InputError(f"{output}: name a file that ends in .html or .md")
    opened = open_index(folder)
    told = usage(opened, FeedbackLog(opened.store))
    document = usage_document(opened.store.name, dict(opened), told)
    if output is not None:
        text = document.html() if output.suffix == ".html" else document.markdown()
        with atomic_file(output) as part:
            part.write_text(text, encoding="utf-8")
    result = {"index": str(opened.store), **asdict(told)}
    emit(result, as_json, lambda _: document.plain() if output is None else f"wrote {output}")
