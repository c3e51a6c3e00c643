"""The form of a file, by its name or by its content."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import is_known, is_name
from rejoinder.corpora.forms.csv_pairs import pair_columns
from rejoinder.corpora.forms.delimited import find_delimiter, header_place, sampled_rows
from rejoinder.corpora.forms.source import Sample, Source, look
from rejoinder.corpora.forms.tables import open_table
from rejoinder.corpora.readers import (
    answers,
    bots,
    chat_apps,
    help_desks,
    knowledge_bases,
    messages,
    snippets,
)
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.refused import refused_form
from rejoinder.errors import InputError
from rejoinder.paths import check_regular_file

# A form is recognised by the first of these that matches, so the special ones come first.
_ALL: list[Form] = [
    chat_apps.WHATSAPP,
    chat_apps.TELEGRAM,
    chat_apps.SLACK,
    chat_apps.DISCORD,
    chat_apps.MESSENGER,
    chat_apps.TELEGRAM_HTML,
    *help_desks.TICKET_FORMS,
    chat_apps.TWITTER,
    messages.MAILBOX,
    messages.CHAT_JSON,
    bots.RASA_TRACKERS,
    bots.RASA,
    bots.INTENTS_JSON,
    bots.DIALOGFLOW,
    bots.DIALOGFLOW_CX,
    bots.WATSON,
    *help_desks.REPLY_FORMS,
    knowledge_bases.QNA_MAKER,
    knowledge_bases.QNA_FILE,
    knowledge_bases.QNABOT,
    knowledge_bases.BOTPRESS,
    snippets.ESPANSO,
    snippets.CHATTERBOT,
    snippets.OSTICKET,
    messages.TRANSCRIPT_TABLE,
    messages.MESSAGES,
    messages.TRANSCRIPT,
    *answers.FORMS,
]
FORMS: dict[str, Form] = {form.name: form for form in _ALL}
KNOWN = answers.KNOWN_COLUMNS | messages.KNOWN
_COMMON = frozenset(form.name for form in answers.FORMS)
_TABLES = (".csv", ".tsv", ".tab")
_OF_EXAMPLES = {"turns", "context"}
_NESTED = {"turns", "messages", "conversations", "conversation"}
_SHOWN_FILES = 3
# Files of a zip file or folder in which there may be replies or chats.
_READ = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xlsx", ".md",
         ".html", ".htm", ".yml", ".yaml", ".mbox", ".eml", ".parquet")  # fmt: skip


def find_form(
    path: str | Path, choice: Choice, holds: Literal["replies", "chats"]
) -> tuple[Form, Sample]:
    """Return a file's form and beginning. InputError: no form is known, or it holds others."""
    if choice.form and choice.form not in FORMS:
        raise InputError(
            f"--set format={choice.form}: no such format; there are {', '.join(FORMS)}"
        )
    sample = inspect(path, choice, usual="messages" if holds == "chats" else "text")
    if choice.form:
        form: Form | None = FORMS[choice.form]
    else:
        matching = [form for form in _ALL if form.matches(sample)]
        form = next((form for form in matching if _is_special(form)), None)
        refused = refused_form(sample) if form is None or form.name == "messages" else None
        if refused is not None:
            raise InputError(f"{sample.source} looks like {refused.title}: {refused.advice}")
        form = form or next((form for form in matching if form.holds == holds), None)
    if form is None:
        raise InputError(_unknown_form(sample, holds, choice))
    if form.holds != holds:
        raise InputError(_other_verb(path, form, choice))
    if untaken := choice.untaken(form.takes):
        raise InputError(f"{path} is read as {form.title}, which takes no {untaken}; leave it out")
    return form, sample


def title_of(path: str | Path) -> str:
    """Return the title of a file's form if it is of one tool, read or not, else nothing."""
    sample = inspect(path, Choice(is_settable=False))
    forms = (form for form in _ALL if _is_special(form) and form.name != "messages")
    own_form = next((form for form in forms if form.matches(sample)), None) or refused_form(sample)
    return "" if own_form is None else own_form.title


def _is_special(form: Form) -> bool:
    """Return whether a form is of one tool, and not one that many files have."""
    return form.name not in _COMMON


def inspect(path: str | Path, choice: Choice, member: str = "", usual: str = "text") -> Sample:
    """Return the beginning of a file with the columns of a table; of the only file in a zip file.

    A pipe of the shell can be read once, so its form must be named. InputError: it is not; the
    error names the `usual` one.
    """
    if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
        check_regular_file(path)
        if not choice.form:
            raise InputError(
                f"{path} is a pipe, whose form cannot be found by its content; "
                f"{choice.advice(f'name it (--set format={usual}), or ')}save it to a file"
            )
        return Sample(Source(Path(path)), "json" if choice.form == "json" else "text")
    sample = look(path, member, choice.encoding)
    if sample.kind == "zip":
        read = [name for name in sample.members if name.lower().endswith(_READ)]
        if len(read) == 1 and not read[0].lower().endswith((".xlsx", ".parquet")):
            return inspect(path, choice, read[0])
    return dataclasses.replace(sample, columns=_columns(sample, choice))


def _columns(sample: Sample, choice: Choice) -> tuple[str, ...]:
    """Return the names of the columns if a file is a table."""
    if sample.kind in ("workbook", "parquet"):
        return tuple(open_table(sample, choice, KNOWN).names)
    if sample.kind.startswith("json"):
        base = "item." if "item" in sample.keys else ""
        keys = (key.removeprefix(base) for key in sample.keys if key.startswith(base))
        return tuple(sorted(key for key in keys if key and "." not in key and key != "item"))
    if sample.kind != "text":
        return ()
    delimiter = choice.delimiter or find_delimiter(sample.lines, KNOWN)
    rows = sampled_rows(sample.lines, delimiter)
    if not rows:
        return ()
    header = rows[header_place(rows, KNOWN, choice.columns.values())]
    is_wide = len(header) > 1
    is_even = all(len(row) == len(header) for row in rows)
    known = sum(is_known(name, KNOWN) for name in header)
    # Commas of sentences have a space behind them.
    least = 2 if any(name.startswith(" ") for name in header) else 1
    is_named = all(map(is_name, header)) and known >= least
    is_table = is_wide and (is_named or (delimiter == "\t" and is_even and len(rows) > 1))
    if is_table or sample.source.name.suffix.lower() in _TABLES:
        return tuple(header)
    return ()


def _unknown_form(sample: Sample, holds: str, choice: Choice) -> str:
    """Return what a file seems to hold, and which forms are read instead."""
    kinds = {
        "text": "plain text" if sample.text else "text",
        "yaml": "YAML",
        "json": "JSON",
        "json lines": "JSON lines",
        "html": "HTML",
        "markdown": "Markdown",
        "mail": "e-mail",
        "zip": "a zip file",
        "folder": "a folder",
        "workbook": "a workbook",
        "parquet": "Parquet",
    }
    known = [form.title for form in _ALL if form.holds == holds]
    names = f" with {', '.join(sorted(sample.columns)[:8])}"[:160] if sample.columns else ""
    text = (
        f"{sample.source} looks like {kinds[sample.kind]}{names}, but like no form of {holds} that "
        f"is known; `rejoinder list formats` lists all {len(known)}"
        f"{choice.advice(', --set format=NAME decides')}"
    )
    if holds == "chats" and sample.kind == "json lines" and _OF_EXAMPLES & set(sample.columns):
        return (
            f"{sample.source} holds examples, not an export of chats; make a data folder of it: "
            f"rejoinder data jsonl {shlex.quote(str(sample.source))} -o DIR"
        )
    if holds == "chats" and sample.kind == "parquet" and _NESTED & set(sample.columns):
        return (
            f"{sample.source} is Parquet with a conversation a row; messages are read, one a row: "
            "save it as JSON lines (pandas: to_json(orient='records', lines=True)) for "
            "`rejoinder data jsonl`"
        )
    if holds == "chats" and sample.columns and pair_columns(sample.columns):
        return (
            f"{sample.source} holds pairs of a message and its reply, not chats; make a data "
            f"folder of it: rejoinder data csv {shlex.quote(str(sample.source))} -o DIR"
        )
    files = [name for name in sample.members if name.lower().endswith(_READ)]
    if sample.kind == "zip" and len(files) > 1:
        return f"{text}; it holds {len(files):,} files, {_listed(files)}: unpack it and name one"
    if holds == "chats" and sample.columns:
        text += (
            "; of a table of messages name the columns: --set format=messages "
            "--set columns=author=NAME,text=NAME,conversation=NAME"
        )
    if holds == "replies" and sample.kind in ("text", "markdown"):
        text += choice.advice("; --set format=text reads one reply a line")
    elif holds == "replies" and sample.kind in ("yaml", "json", "json lines"):
        text += (
            "; convert it to a table with the columns answer and question, or to JSON lines of "
            '{"text": "...", "questions": ["..."]}'
        )
    return text


def _listed(files: Sequence[str]) -> str:
    return ", ".join([*files[:_SHOWN_FILES], *(["..."] if len(files) > _SHOWN_FILES else [])])


def _other_verb(path: str | Path, form: Form, choice: Choice) -> str:
    if form.holds == "chats":
        return (
            f"{path} looks like chats ({form.title}), not replies; make examples of it "
            f"(rejoinder data chats {shlex.quote(str(path))} -o DIR)"
            f"{choice.advice(' and index that folder, or name another format')}"
        )
    return (
        f"{path} looks like replies ({form.title}), not chats; index it with "
        "`rejoinder index build`, or name another form with --set format=NAME"
    )
