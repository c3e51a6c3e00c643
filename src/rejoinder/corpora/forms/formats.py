"""JSON lines and CSV of a user's own: dialogues, chats, pairs; docs/data.md shows the forms.

A dialogue that names no thread has the hash of its text for one (`Threads`). A pair has the hash of
its context's first message, so that pairs which unfold one conversation stay together.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rejoinder.conversations import content_text, is_call, is_instruction, join_turns
from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.dialogues import Threads, dialogue_examples
from rejoinder.corpora.lines import Reading, strip_compression
from rejoinder.corpora.records import BadRecordError, parse_lines, parse_object
from rejoinder.corpora.redaction import redact_example
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import content_thread
from rejoinder.errors import InputError
from rejoinder.patterns import match_pattern
from rejoinder.settings import documented

# DATA19's extra contexts; `context/0` is the newest of them.
EARLIER_CONTEXT = match_pattern(r"context/(\d{1,9})")
_SHOWN_NOTES = 3  # in an error
# Ours; DATA19's for Reddit, AmazonQA, OpenSubtitles.
THREAD_FIELDS = ("thread", "thread_id", "product_id", "file_id")


@documented
class OwnSettings:
    """Settings of data of a user's own."""

    redact: bool = False
    """Replace e-mail addresses, card numbers, IBANs and phone numbers by <email>, <card>, <iban>
    and <phone>."""

    def finish(self, examples: Generator[Example], reading: Reading) -> Generator[Example]:
        """Yield the examples, redacted if `redact` is set."""
        for example in examples:
            finished = redact_example(example) if self.redact else example
            reading.redacted += finished != example
            yield finished


@documented
class ChatSettings(OwnSettings):
    """Settings of chats."""

    respond: str = "assistant"
    """Role whose messages are responses; several roles with commas between them, or any."""

    def __post_init__(self) -> None:
        if not all(role.strip() for role in self.respond.split(",")):
            raise InputError(
                f"respond is {self.respond!r}; give a role, several (agent,bot), or any"
            )

    def responds(self, role: str) -> bool:
        """Return whether the messages of a role are responses."""
        return self.respond == "any" or role in map(str.strip, self.respond.split(","))


_DEFAULT = ChatSettings()

NOBODY = "nobody is called"  # in a note on agents whose names no participant has


def no_response(
    roles: Mapping[str, int], settings: Mapping[str, Any], notes: Sequence[str] = ()
) -> str:
    """Explain that no message of those who respond by the settings answers another one."""
    unknown = [note for note in notes if NOBODY in note][:_SHOWN_NOTES]
    if unknown and "agent" not in roles:
        return f"{'; '.join(unknown)}: `--set agent=NAME` names others"
    present = ", ".join(f"{role} ({count:,})" for role, count in roles.items())
    option = "respond=ROLE" if "respond" in settings else "agent=NAME"
    return (
        f"no message of {settings.get('respond', 'an agent')} answers another; there are those of "
        f"{present}: `--set {option}` names others"
    )


def read_jsonl(
    path: str | Path, reading: Reading | None = None, settings: ChatSettings | None = None
) -> Generator[Example]:
    """Yield the examples of a file of JSON lines."""
    path = Path(path)
    reading = reading or Reading()
    settings = settings or ChatSettings()
    source = strip_compression(path).stem
    stem = reading.stem(path)
    threads = Threads()

    def parse(number: int, line: str) -> Sequence[Example]:
        record = parse_object(line)
        name = f"{stem}:{number}"
        return record_examples(record, name, source, reading, threads, settings.responds)

    return settings.finish(parse_lines(path, reading, parse), reading)


def record_examples(
    record: Mapping[str, Any],
    name: str,
    source: str,
    reading: Reading,
    threads: Threads,
    responds: Callable[[str], bool] = _DEFAULT.responds,
) -> Sequence[Example]:
    """Return the examples of a record in any form but that of a FAQ, or raise BadRecordError."""
    name = _first_text(record, ("id",)) or name
    source = text_of(record.get("source") or source, "source")
    if "turns" not in record and "messages" not in record:
        if "context" not in record:
            raise BadRecordError(
                f"no context and response, turns, or messages; {describe_fields(record)}"
            )
        return [_pair(record, name, source, reading)]
    responses = None
    if "turns" in record:
        turns = _texts(record["turns"], "turns")
    else:
        spoken = join_turns(_spoken(record["messages"], reading))
        turns = [text for _, text in spoken]
        roles = [role for role, _ in spoken]
        responses = {index for index, role in enumerate(roles) if role and responds(role)}
    first = _first_response(record, turns)
    thread = _first_text(record, THREAD_FIELDS) or threads.find(turns, first)
    reading.blank_messages += sum(not turn.strip() for turn in turns)
    dialogue = dialogue_examples(
        turns,
        name=name,
        thread=thread,
        source=source,
        reading=reading,
        first=first,
        responses=responses,
    )
    reading.without_reply += not dialogue
    return dialogue


def spoken_turns(record: Mapping[str, Any]) -> tuple[list[str], int]:
    """Return a dialogue's turns that are not blank, and the index of its first new response."""
    if "turns" not in record:
        raise BadRecordError(f"no turns; {describe_fields(record)}")
    turns = _texts(record["turns"], "turns")
    first = _first_response(record, turns)
    blank = sum(not turn.strip() for turn in turns[:first])
    return [turn for turn in turns if turn.strip()], max(1, first - blank)


def text_of(value: Any, name: str) -> str:
    """Return the value if it is a text that a file can hold; BadRecordError names it if not."""
    if not isinstance(value, str):
        raise BadRecordError(f"{name} is {_shown(value)}; a text is read")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRecordError(
            f"{name} holds half of a surrogate pair (\\ud800 to \\udfff), which is not text"
        ) from None
    return value


def _pair(record: Mapping[str, Any], name: str, source: str, reading: Reading) -> Example:
    value = record["context"]
    is_text = isinstance(value, str)
    messages = [*earlier_context(record), value] if is_text else _texts(value, "context")
    context = [message for message in messages if message.strip()]
    response, candidates, label = _choice(record)
    if not context:
        raise BadRecordError("the context is blank; it needs at least one message")
    if not response.strip():
        raise BadRecordError("the response is blank; it needs a text")
    if is_text and not value.strip():
        raise BadRecordError("the newest message (context) is blank; the response answers it")
    reading.blank_messages += len(messages) - len(context)
    thread = _first_text(record, THREAD_FIELDS) or content_thread(context[:1])
    return Example(reading.newest(context), response, name, thread, source, candidates, label)


def _choice(record: Mapping[str, Any]) -> tuple[str, tuple[str, ...], int | None]:
    """Return response, candidates and label.

    A record with candidates may leave out the response or the label.
    """
    candidates = tuple(_texts(record.get("candidates") or [], "candidates"))
    label = record.get("label")
    count = len(candidates)
    if count == 0:
        if label is not None:  # elsewhere 0 says that this is not the response
            raise BadRecordError(
                "a label but no candidates; it is the place of the response among them"
            )
        if "response" not in record:
            raise BadRecordError(f"context but no response; {describe_fields(record)}")
        return text_of(record["response"], "response"), (), None
    if label is None:
        response = text_of(record.get("response"), "response")
        times = candidates.count(response)
        if times != 1:
            raise BadRecordError(
                f"the response is {times} times among the candidates; give its place as label"
            )
        return response, candidates, candidates.index(response)
    if type(label) is not int or not 0 <= label < count:
        raise BadRecordError(
            f"label is {_shown(label)}; with {count} candidates it is 0 to {count - 1}"
        )
    if text_of(record.get("response", candidates[label]), "response") != candidates[label]:
        raise BadRecordError(f"candidate {label}, which label names, is not the response")
    return candidates[label], candidates, label


def earlier_context(record: Mapping[str, Any]) -> list[str]:
    """Return DATA19's extra contexts, oldest first, by number (not as text: 10 comes after 2)."""
    names = {int(match[1]): key for key in record if (match := EARLIER_CONTEXT.fullmatch(key))}
    newest_last = [names[number] for number in sorted(names, reverse=True)]
    return [text_of(record[name], name) for name in newest_last]


def _spoken(messages: Any, reading: Reading) -> list[tuple[str | None, str]]:
    """Return role and text of a chat's messages, without blank ones and calls; count all roles."""
    if not isinstance(messages, list):
        raise BadRecordError(
            f"messages is {_shown(messages)}; a list of objects with role and content is read"
        )
    spoken: list[tuple[str | None, str]] = []
    roles = Counter[str]()
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRecordError(
                f"messages[{index}] is {_shown(message)}; an object with role and content is read"
            )
        role = text_of(message["role"], f"messages[{index}].role")
        roles["tool" if is_call(message) else role] += 1
        if not is_instruction(role) and not is_call(message):
            content = content_text(message.get("content"))
            text = text_of(content, f"messages[{index}].content")
            spoken.append((role, text))
    for role, count in roles.items():
        reading.roles[role] = reading.roles.get(role, 0) + count
    reading.blank_messages += sum(not text.strip() for _, text in spoken)
    return [(role, text) for role, text in spoken if text.strip()]


def _first_response(record: Mapping[str, Any], turns: Sequence[str]) -> int:
    first = record.get("from", 1)
    last = max(1, len(turns))
    if type(first) is not int or not 1 <= first <= last:
        raise BadRecordError(f"from is {_shown(first)}; it is the index of a turn, 1 to {last}")
    return first


def _first_text(record: Mapping[str, Any], fields: Sequence[str]) -> str:
    """Return the first of these fields that a record has, a number as text; nothing if none."""
    name = next((name for name in fields if record.get(name) not in (None, "")), None)
    if name is None:
        return ""
    return str(record[name]) if type(record[name]) is int else text_of(record[name], name)


def _texts(value: Any, name: str) -> list[str]:
    if not isinstance(value, list):
        raise BadRecordError(f"{name} is {_shown(value)}; a list of texts is read")
    return [text_of(text, f"{name}[{index}]") for index, text in enumerate(value)]


def describe_fields(record: Mapping[str, Any]) -> str:
    """Return the names of a record's fields, for an error's text."""
    return f"the fields are {', '.join(list(record)[:6])[:100] or 'none'}"


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value[:40] if isinstance(value, str) else value)[:40]


JSONL = Corpus(
    name="jsonl",
    title="Your own conversations or pairs, one JSON object a line.",
    reads='*.jsonl: {"turns": [...]}, {"messages": [...]}, {"context": [...], "response": "..."}, '
    "DATA19's flat form",
    licence="yours",
    origin="your own export",
    read=read_jsonl,
    settings=ChatSettings,
)
DIALOGUES = replace(
    JSONL,
    name="dialogues",
    title="Published dialogues, one a line; a line may repeat turns of an earlier one.",
    reads='*.jsonl.zst (also with --long): {"id", "source", "turns": [...]}, '
    'with "from": the first turn that is new',
    licence="each file its own",
    origin="each file its own",
)
