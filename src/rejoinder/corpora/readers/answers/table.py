"""Replies as text, tables, JSON and FAQ pages; see docs/exports.md.

A line, a row, an object, or a question of a page is a reply.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import (
    INTENT,
    QUESTIONS,
    REPLY,
    columns_of,
    find_column,
    fold,
    is_name,
    value_of,
)
from rejoinder.corpora.forms.delimited import REPEATED_HEADERS
from rejoinder.corpora.forms.json_rows import json_rows
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.forms.tables import open_table
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat_apps.whatsapp import whatsapp_line
from rejoinder.corpora.readers.form import OF_JSON, OF_TABLES, Form
from rejoinder.corpora.readers.help_desks.replies import ACTIONS, macro_json
from rejoinder.corpora.readers.standing import is_inactive, why_unused
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.html_text import text_of_html
from rejoinder.patterns import search_pattern

BODY = ("content", "body", "message")  # taken for the reply where none of `REPLY` is there
TITLE = ("title", "name", "short_code", "shortcut", "subject", "heading")
WORDS = {"text": (*REPLY, *BODY), "title": TITLE, "questions": QUESTIONS}
WRITTEN_BY = ("author", "author_id", "sender", "sender_id", "sender_name", "from", "from_id",
              "from_name", "speaker", "user", "user_id", "username")  # fmt: skip
NO_REPLY = "rows without a reply"  # a key of `Reading.dropped`
_ANSWERS = frozenset(("response", "reply", "answer", *ACTIONS))
KNOWN = frozenset(itertools.chain(*WORDS.values()))
_PLURAL = frozenset(QUESTIONS) - {"question"}
# Tags at the beginning or end of a line, JSON, YAML, headers of mails, cells with tabs: none of
# them is a line that somebody says.
_STRUCTURE = search_pattern(
    r"""</?[a-zA-Z][\w-]*(?:\s[^<>]*)?>\s*$|^\s*</?[a-zA-Z]|"\s*:\s*["\[{\d]|^\s*-\s+[a-z_]+:\s"""
    r"""|"\s*[}\]]|\S *\t *\S|^(?:Message-ID|Content-Type|MIME-Version):\s"""
)
_DATA = search_pattern(r"""^\s*-\s+[a-z_]+:\s|"\s*:\s*["\[{\d]|"\s*[}\]]""")
_JUDGED = 1_000  # records: if none of them has a question, the file is not gathered by answer


def read_text(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each line that is not blank. InputError: one cannot be a reply."""
    unsure = choice.encoding or sample.encoding in ("utf-16", "utf-8-sig", "utf-16-le")
    encoding = choice.encoding or (sample.encoding if unsure else "utf-8")
    for number, line in sample.source.lines(encoding, reading):
        text = line.strip()
        if not choice.form and (_STRUCTURE.search(text) or whatsapp_line(text) is not None):
            is_data = _DATA.search(text) is not None
            advice = (
                "give the file the ending of its form, .json or .yml"
                if is_data
                else choice.advice(
                    "--set format=text reads one reply a line all the same",
                    "give it the ending of its form",
                )
            )
            raise InputError(
                f"{sample.source}:{number}: this looks like HTML, JSON, YAML, a table or a chat "
                f"in a file of text; {advice}"
            )
        if text:
            yield Candidate(text)


def read_table(
    sample: Sample,
    choice: Choice,
    reading: Reading,
    is_dependent: Callable[[Mapping[str, Any]], bool] | None = None,
) -> Iterator[Candidate]:
    """Yield a reply for each row, or for each answer where the rows have questions.

    `is_dependent` counts a row that answers only behind another one, by its cells.
    """
    table = open_table(sample, choice, KNOWN, reading)
    source = sample.source
    columns = reply_columns(table.names, choice, str(source))
    is_left_out = _left_out(columns, choice, reading)
    words = ", ".join(f"{role} = {name}" for role, name in columns.items())
    reading.notes.append(f"{source}: {table.form}: {words}")

    def candidates() -> Iterator[Candidate]:
        rows = 0
        for where, row in table.rows:
            rows += 1
            if is_left_out(row) or (is_dependent is not None and is_dependent(row)):
                continue
            text = row[columns["text"]]
            text = macro_json(text) if isinstance(text, str) else text
            if text is None or not str(text).strip():
                reading.drop(NO_REPLY)
                continue
            text = text if isinstance(text, list) else str(text).strip()
            yield candidate_of({**row, columns["text"]: text}, columns, where)
        if not rows:
            raise InputError(f"{source} has a header and no rows; give each reply a row")

    has_questions = "questions" in columns
    yield from gathered(candidates(), reading, source) if has_questions else candidates()


def _left_out(
    columns: Mapping[str, str], choice: Choice, reading: Reading
) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that counts a record which is not to be read: a header, or not in use."""

    def is_left_out(record: Mapping[str, Any]) -> bool:
        if len(columns) > 1 and all(
            fold(record.get(name) or "") == fold(name) for name in columns.values()
        ):
            reading.drop(REPEATED_HEADERS)
            return True
        if not choice.inactive and is_inactive(
            {name: value for name, value in record.items() if name not in columns.values()}
        ):
            reading.drop(why_unused(choice))
            return True
        return False

    return is_left_out


def read_json(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each object (or text) of JSON lines, an array, or the list in an object."""
    rows = json_rows(sample, _list_path(sample), reading)
    columns: dict[tuple[str, ...], dict[str, str]] = {}  # by the names of the fields
    used = (
        (where, value)
        for where, value in rows
        if choice.inactive or not _is_unused(value, choice, reading)
    )
    candidates = (_of_json(value, choice, where, columns) for where, value in used)
    first = list(itertools.islice(candidates, _JUDGED))
    if columns:
        words = ", ".join(f"{role} = {name}" for role, name in next(iter(columns.values())).items())
        reading.notes.append(f"{sample.source}: JSON: {words}")
    rest = itertools.chain(first, candidates)
    has_questions = any(candidate.examples for candidate in first)
    yield from gathered(rest, reading, sample.source) if has_questions else rest


def _is_unused(value: Any, choice: Choice, reading: Reading) -> bool:
    """Return whether an object is not in use; count it then."""
    unused = isinstance(value, dict) and is_inactive(value)
    if unused:
        reading.drop(why_unused(choice))
    return unused


def _list_path(sample: Sample) -> str:
    """Return the path of the one list of replies in an object, else nothing."""
    fields = [key.removesuffix(".item") for key in sample.keys if key.endswith(".item")]
    paths = [
        f"{name}.item"
        for name in fields
        if "." not in name
        and name != "item"
        and any(f"{name}.item.{word}" in sample.keys for word in (*REPLY, *BODY))
    ]
    own = any(word in sample.keys for word in (*REPLY, *BODY))
    return paths[0] if len(paths) == 1 and not own else ""


def _of_json(
    value: Any, choice: Choice, where: str, columns: dict[tuple[str, ...], dict[str, str]]
) -> Candidate:
    if isinstance(value, str) and value.strip() and "object" in where:
        return Candidate(value.strip())
    if not isinstance(value, dict):
        raise InputError(
            f'{where}: a JSON {type(value).__name__}; an object is read, as {{"text": "Hello!"}}'
        )
    names = tuple(value)
    if names not in columns:
        columns[names] = reply_columns(names, choice, where, "field")
    return candidate_of(value, columns[names], where)


def reply_columns(
    names: Sequence[str], choice: Choice, where: str, kind: str = "column"
) -> dict[str, str]:
    """Return the columns of text, title and questions. InputError: no reply, or two that may be."""
    columns = columns_of(names, WORDS, choice, where)
    actions = find_column(names, ACTIONS)
    if "text" not in columns and actions is not None and kind == "column":
        columns = {"text": actions, **columns}
    if "text" not in columns:
        if len(names) == 1 and kind == "column" and is_name(names[0]):
            return {"text": names[0]}
        headless = "; without a header: --set format=table,header=no --set columns=text=1"
        advice = choice.advice(
            "name it with --set columns=text=NAME, of its questions with "
            f"columns=text=NAME,questions=NAME{headless if kind == 'column' else ''}",
            f"rename the {kind}s of the replies and their questions to answer and question",
        )
        raise InputError(
            f"{where}: no {kind} {', '.join(WORDS['text'][:-1])} or {WORDS['text'][-1]}; there is "
            f"{', '.join(map(str, names))[:200] or 'none'}: {advice}"
        )
    if "text" not in choice.columns:
        refuse_messages(names, columns, choice, where)
    rivals = [name for name in REPLY if find_column(names, [name]) is not None]
    if len(rivals) > 1 and "text" not in choice.columns:
        advice = choice.advice(
            f"say which: --set columns=text={rivals[-1]}", "rename or delete all but one"
        )
        raise InputError(f"{where}: {' and '.join(rivals)} may both be the reply; {advice}")
    return columns


def refuse_messages(
    names: Sequence[str], columns: Mapping[str, str], choice: Choice, where: str
) -> None:
    """Raise InputError if the text of a record is what somebody wrote to a bot or in a chat."""
    if fold(columns["text"]) in _ANSWERS or {"title", "questions"} & columns.keys():
        return
    intent = find_column(names, INTENT)
    author = find_column(names, WRITTEN_BY)
    if intent is None and author is None:
        return
    name = intent if intent is not None else author
    advice = choice.advice(
        f"say that they are replies: --set columns=text={columns['text']}",
        f"rename the field {columns['text']} to answer if they are replies",
    )
    raise InputError(
        f"{where}: with the field {name} these are messages that people wrote, not replies; use "
        f"`rejoinder {'intents train' if intent is not None else 'data chats'}`, or {advice}"
    )


def candidate_of(record: Mapping[str, Any], columns: Mapping[str, str], where: str) -> Candidate:
    """Return the reply of a record; all of it but the text and the questions is payload."""
    name = columns["text"]
    text = record[name]
    messages = text if isinstance(text, list) and text else [text]
    if not all(isinstance(message, str) and message.strip() for message in messages):
        raise InputError(
            f"{where}: {name} is {json.dumps(text, default=str)[:60]}; "
            "a text is needed, or a list of messages"
        )
    taken = {name, columns.get("questions")}
    payload = {key: value for key, value in record.items() if key not in taken}
    if messages is text:
        if "messages" in payload:
            raise InputError(
                f"{where}: {name} is a list of messages, but there is a field messages too; "
                "leave one out"
            )
        payload["messages"] = text
    joined = " ".join(messages)
    joined = text_of_html(joined) if fold(name).endswith("html") else joined
    title = value_of(record, columns, "title")
    examples = _examples(value_of(record, columns, "questions"), columns, where)
    is_title = isinstance(title, str | int | float)
    return Candidate(joined, payload, str(title).strip() if is_title else "", examples)


def _examples(value: Any, columns: Mapping[str, str], where: str) -> tuple[tuple[str, ...], ...]:
    """Return the conversations of a field: a text, or a list of texts or of conversations."""
    if value is None or value in ("", []):
        return ()
    name = columns["questions"]
    if isinstance(value, int | float):
        value = str(value)
    if isinstance(value, str):
        value = value.splitlines() if fold(name) in _PLURAL else [value]
    if isinstance(value, list):
        examples = [[example] if isinstance(example, str) else example for example in value]
        if all(isinstance(messages, list) for messages in examples):
            texts = [text for messages in examples for text in messages]
            if all(isinstance(text, str) for text in texts):
                full = (tuple(filter(None, map(str.strip, messages))) for messages in examples)
                return tuple(filter(None, full))
    raise InputError(
        f"{where}: {name} is {json.dumps(value, default=str)[:60]}; a text is read, or a list of "
        "texts or of conversations"
    )


def gathered(
    candidates: Iterable[Candidate], reading: Reading, source: object
) -> Iterator[Candidate]:
    """Yield one reply for all with the same text, with the questions of all, in their first order.

    The first one's title and payload are kept; `reading` notes which fields of others are not.
    """
    replies: dict[str, Candidate] = {}
    questions: dict[str, dict[tuple[str, ...], None]] = {}
    lost: dict[str, None] = {}
    for candidate in candidates:
        first = replies.setdefault(candidate.text, candidate)
        questions.setdefault(candidate.text, {}).update(dict.fromkeys(candidate.examples))
        lost |= dict.fromkeys(
            name
            for name, value in candidate.payload.items()
            if name != "id" and value not in (None, "") and value != first.payload.get(name)
        )
    if lost:
        reading.notes.append(
            f"{source}: replies with the same text are one, with the questions of all and the "
            f"fields of the first: others differ in {', '.join(lost)}"
        )
    for text, candidate in replies.items():
        yield dataclasses.replace(candidate, examples=tuple(questions[text]))


TEXT = Form(
    name="text",
    title="text, one reply a line",
    holds="replies",
    export="save a list of replies as plain text (.txt, UTF-8), one a line",
    matches=lambda sample: (
        sample.kind == "text" and sample.source.name.suffix.lower() == ".txt" and not sample.columns
    ),
    read=read_text,
)
TABLE = Form(
    name="table",
    title="table of replies: CSV, TSV, Excel, Parquet",
    holds="replies",
    export="Excel, Sheets, any tool: save or download as .csv, .tsv or .xlsx, with a header",
    matches=lambda sample: bool(sample.columns) and not sample.kind.startswith("json"),
    read=read_table,
    takes=OF_TABLES,
)
JSON = Form(
    name="json",
    title="JSON of replies, an object a line or in an array",
    holds="replies",
    export="any tool or API: write an object with a text (and title, questions) for each reply",
    matches=lambda sample: (
        sample.kind == "json lines" or "item" in sample.keys or bool(_list_path(sample))
    ),
    read=read_json,
    takes=OF_JSON,
)
