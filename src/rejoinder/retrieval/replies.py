"""Replies to index, read from the files people have: text, JSONL, CSV, or examples; and conversations to answer."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rejoinder.conversations import Conversation, spoken
from rejoinder.corpora.example import Candidate, Split
from rejoinder.corpora.formats import BadRecordError, earlier_context
from rejoinder.corpora.lines import MAX_LINE_BYTES, open_lines, strip_compression
from rejoinder.errors import InputError

TEXT_FIELDS = ("text", "response", "reply", "answer")  # of an object or a table: the first that is there
CONVERSATION_FIELDS = ("messages", "turns", "context")


@dataclass(frozen=True, slots=True)
class Why:
    """Why a reply was found: the part of it that did most, and what was most like the conversation."""

    view: Literal["text", "title", "example"]
    like: tuple[str, ...]  # the reply's text, its title, or the nearest of its examples
    similarity: float  # cosine of its encoding and the conversation's


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of an index."""

    text: str
    score: float  # cosine of its encoding and the context's, or whatever else the model's score is
    position: int  # its number in the input, from 0; the same whatever was added or deleted since
    payload: Mapping[str, Any]  # whatever other fields its input had
    title: str = ""
    examples: tuple[tuple[str, ...], ...] = ()  # conversations that it is known to answer
    why: Why | None = None  # if it was asked for

    def to_json(self) -> dict[str, Any]:
        """Return the reply as JSON types; its title and why it was found only where it has them."""
        values: dict[str, Any] = {
            "text": self.text,
            "score": self.score,
            "position": self.position,
            "payload": dict(self.payload),
        }
        if self.title:
            values["title"] = self.title
        if self.why is not None:
            values["why"] = asdict(self.why)
        return values


def distinct(candidates: Iterable[Candidate], known: Iterable[str] = ()) -> Iterator[Candidate]:
    """Yield the first of candidates with equal texts, and none whose text is known already."""
    seen = set(known)
    for candidate in candidates:
        if candidate.text not in seen:
            seen.add(candidate.text)
            yield candidate


def read_candidates(path: str | Path, split: Split | None = None) -> Iterator[Candidate]:
    """Read replies one after the other; of examples those of one `split`, or all. Errors name file, line and reason.

    By the end of the name (before .zst, .gz, .bz2, .xz): `.jsonl`, an object a line, its text in one of `TEXT_FIELDS`,
    other fields are payload (a list of messages is one text, joined by spaces, and the payload's `messages`); `.csv`,
    the same by column (a single one may have any name); a data folder or `.parquet` of examples, whose distinct
    responses are read; anything else is text with one reply a line.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist; name a file of replies or a data folder")
    kind = "" if path.is_dir() else strip_compression(path).suffix.lower()
    if path.is_dir() or kind == ".parquet":
        from rejoinder.corpora.examples import read_examples  # with pyarrow, which a server need not wait for

        return distinct(Candidate(example.response) for example in read_examples(path, split))
    if split is not None:
        raise InputError(f"{path} is not a folder of examples, so it has no {split} split; leave --split out")
    if kind == ".json":
        raise InputError(f"{path}: .json is not read; write one JSON object a line and name the file .jsonl")
    return {".jsonl": _from_jsonl, ".ndjson": _from_jsonl, ".csv": _from_csv}.get(kind, _from_text)(path)


def read_conversations(path: str | Path) -> list[tuple[dict[str, Any], Conversation]]:
    """Read conversations, one a line of JSON, each after {"id": ...} or {}. Errors name file, line and reason.

    A line is a text, a list of messages, or an object with one of these in one of `CONVERSATION_FIELDS` (DATA19's
    `context/0`, ... too) and perhaps an `id`. Blank messages are left out.
    """
    found: list[tuple[dict[str, Any], Conversation]] = []
    for number, line in open_lines(path):
        if not line.strip():
            continue
        values = _parse(line, where := f"{path}:{number}", "a text, a list of messages or an object")
        record = values if isinstance(values, dict) else {CONVERSATION_FIELDS[0]: values}
        name = next((name for name in CONVERSATION_FIELDS if name in record), None)
        if name is None:
            there = ", ".join(record) or "none"
            raise InputError(f"{where}: no field {' or '.join(CONVERSATION_FIELDS)}; there is {there}")
        try:
            given = record[name]
            messages = [*earlier_context(record), given] if isinstance(given, str) else given
            spoken(messages)
            said = [each for each in messages if not isinstance(text := _content(each), str) or text.strip()]
            spoken(said)
        except (BadRecordError, InputError) as error:
            raise InputError(f"{where}: {error}") from None
        found.append(({key: record[key] for key in ("id",) if key in record}, said))
    if not found:
        raise InputError(f"{path} holds no conversations; each line of it should be one, as JSON")
    return found


def _content(message: Any) -> Any:
    return message.get("content") if isinstance(message, dict) else message


def _from_text(path: Path) -> Iterator[Candidate]:
    return (Candidate(text) for _, line in open_lines(path) if (text := line.strip()))


def _from_jsonl(path: Path) -> Iterator[Candidate]:
    for number, line in open_lines(path):
        if line.strip():
            values = _parse(line, where := f"{path}:{number}", "one object")
            if not isinstance(values, dict):
                given = type(values).__name__
                raise InputError(f'{where}: a JSON {given}; an object is read, as {{"text": "Hello!"}}')
            yield _from_fields(values, where)


def _parse(line: str, where: str, wanted: str) -> Any:
    try:
        values = json.loads(line, parse_constant=_refuse_constant)
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError(f"{where}: half of a surrogate pair (\\ud800 to \\udfff) is no character") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error}); {wanted} a line is read") from None
    return values


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _from_csv(path: Path) -> Iterator[Candidate]:
    number = 0

    def lines() -> Iterator[str]:
        nonlocal number
        for number, line in open_lines(path):  # noqa: B007 (the errors below name the line)
            yield line + "\n"  # tells a line break in quotes from the end of a row

    csv.field_size_limit(MAX_LINE_BYTES)
    try:
        table = csv.DictReader(lines(), strict=True)
        names = table.fieldnames or ()
        for row in table:
            where = f"{path}:{number}"
            if None in row or None in row.values():
                raise InputError(f"{where}: the row has not as many fields as the header has columns, {len(names)}")
            fields = {TEXT_FIELDS[0]: row[names[0]]} if len(names) == 1 else dict(row)
            fields.pop("", None)  # the number of the row, as some tables have it
            yield _from_fields(fields, where)
    except csv.Error as error:
        raise InputError(f"{path}:{number}: not CSV ({error})") from None


def _from_fields(values: dict[str, Any], where: str) -> Candidate:
    name = next((name for name in TEXT_FIELDS if name in values), None)
    if name is None:
        wanted = ", ".join(TEXT_FIELDS[:-1])
        raise InputError(f"{where}: no field {wanted} or {TEXT_FIELDS[-1]}; there is {', '.join(values) or 'none'}")
    text = values[name]
    messages = text if isinstance(text, list) and text else [text]
    if not all(isinstance(each, str) and each.strip() for each in messages):
        raise InputError(f"{where}: {name} is {json.dumps(text)[:60]}; a text is needed, or a list of messages")
    payload = {key: value for key, value in values.items() if key != name}
    if messages is text:
        if "messages" in payload:
            raise InputError(f"{where}: {name} is a list of messages, but there is a field messages too; leave one out")
        payload["messages"] = text
    return Candidate(" ".join(messages), payload)
