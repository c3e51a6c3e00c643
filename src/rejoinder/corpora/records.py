"""From one record (a JSON object, a row of a table) to examples, in the forms that people and papers use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rejoinder.corpora.dialogues import Threads, dialogue_examples
from rejoinder.corpora.example import Example
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.splits import content_thread

EARLIER_CONTEXT = re.compile(r"context/(\d{1,9})")
"""Names of DATA19's extra contexts; `context/0` is the newest of them."""

_THREAD_FIELDS = ("thread", "thread_id", "product_id", "file_id")
"""Where the name of the thread stands: in our own files, and in DATA19's of Reddit, AmazonQA and OpenSubtitles."""
_NO_TURNS = frozenset({"system", "developer", "tool", "function"})
"""Roles whose messages nobody said to anybody."""
_FORMS = "context and response, turns, or messages"


class BadRecordError(ValueError):
    """A record that cannot be used; the message says why, without saying where."""


def record_examples(
    record: Mapping[str, Any], name: str, source: str, reading: Reading, threads: Threads
) -> Iterator[Example]:
    """Make the examples of one record. Blank messages of a context or dialogue are left out and counted.

    Args:
        record: one of the forms that `rejoinder.corpora.jsonl` lists.
        name: id of the record if it has none.
        source: name of the corpus if the record has none.
        reading: how much history to keep; its counts are added to.
        threads: finds the threads of dialogues that name none.

    Raises:
        BadRecordError: the record is in none of the forms, or a text is missing, blank or no text.
    """
    name = text_of(record.get("id") or name, "id")
    source = text_of(record.get("source") or source, "source")
    if "turns" in record:
        turns = _texts(record["turns"], "turns")
    elif "messages" in record:
        turns = _spoken(record["messages"])
    elif "context" in record:
        yield _pair(record, name, source, reading)
        return
    else:
        raise BadRecordError(f"no {_FORMS}; the fields are {', '.join(list(record)[:6]) or 'none'}")
    first = _first_response(record, turns)
    thread = _thread(record) or threads.of(turns, first)
    reading.blank_messages += sum(not turn.strip() for turn in turns)
    examples = dialogue_examples(turns, name=name, thread=thread, source=source, first=first, reading=reading)
    count = 0
    for count, example in enumerate(examples, 1):  # noqa: B007 (used after the loop)
        yield example
    reading.without_reply += count == 0


def spoken_turns(record: Mapping[str, Any]) -> tuple[list[str], int]:
    """The turns of a dialogue that are not blank, and the place among them of the first new response.

    Args:
        record: with `turns` and perhaps `from`.

    Raises:
        BadRecordError: as `record_examples`.
    """
    if "turns" not in record:
        raise BadRecordError(f"no turns; the fields are {', '.join(list(record)[:6]) or 'none'}")
    turns = _texts(record["turns"], "turns")
    first = _first_response(record, turns)
    blank = sum(not turn.strip() for turn in turns[:first])
    return [turn for turn in turns if turn.strip()], max(1, first - blank)


def _pair(record: Mapping[str, Any], name: str, source: str, reading: Reading) -> Example:
    """The example of a record with `context` and `response`."""
    given = record["context"]
    messages = [*_earlier(record), given] if isinstance(given, str) else _texts(given, "context")
    context = [message for message in messages if message.strip()]
    response, candidates, label = _choice(record)
    if not context:
        raise BadRecordError("the context is blank; it needs at least one message")
    if not response.strip():
        raise BadRecordError("the response is blank; it needs a text")
    if isinstance(given, str) and not given.strip():
        raise BadRecordError("the newest message (context) is blank; the response answers it")
    reading.blank_messages += len(messages) - len(context)
    thread = _thread(record) or content_thread(context[:1])
    return Example(reading.newest(context), response, name, thread, source, candidates, label)


def _choice(record: Mapping[str, Any]) -> tuple[str, tuple[str, ...], int | None]:
    """Response, candidates and label; a record with candidates may leave out the response or the label."""
    candidates = tuple(_texts(record.get("candidates") or [], "candidates"))
    label = record.get("label")
    count = len(candidates)
    if count == 0:
        if label is not None:  # elsewhere 0 says that this is not the response
            raise BadRecordError("a label but no candidates; it is the place of the response among them")
        if "response" not in record:
            raise BadRecordError(f"context but no response; the fields are {', '.join(list(record)[:6])}")
        return text_of(record["response"], "response"), (), None
    if label is None:
        response = text_of(record.get("response"), "response")
        if candidates.count(response) != 1:
            times = candidates.count(response)
            raise BadRecordError(f"the response is {times} times among the candidates; give its place as label")
        return response, candidates, candidates.index(response)
    if type(label) is not int or not 0 <= label < count:
        raise BadRecordError(f"label is {_shown(label)}; with {count} candidates it is 0 to {count - 1}")
    response = text_of(record.get("response", candidates[label]), "response")
    if response != candidates[label]:
        raise BadRecordError(f"candidate {label}, which label names, is not the response")
    return response, candidates, label


def _earlier(record: Mapping[str, Any]) -> list[str]:
    """DATA19's extra contexts, oldest first: by their numbers, since as words `context/10` comes before `context/2`."""
    numbers = {int(match[1]): key for key in record if (match := EARLIER_CONTEXT.fullmatch(key))}
    return [text_of(record[numbers[number]], numbers[number]) for number in sorted(numbers, reverse=True)]


def _spoken(messages: Any) -> list[str]:
    """Texts of a chat's messages that somebody said: no instructions, no tools and no calls of them."""
    if not isinstance(messages, list):
        raise BadRecordError(f"messages is {_shown(messages)}; a list of objects with role and content is read")
    turns = []
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRecordError(f"messages[{place}] is {_shown(message)}; an object with role and content is read")
        calls = message.get("content") is None and ("tool_calls" in message or "function_call" in message)
        if message["role"] not in _NO_TURNS and not calls:
            turns.append(text_of(message.get("content"), f"messages[{place}].content"))
    return turns


def _first_response(record: Mapping[str, Any], turns: Sequence[str]) -> int:
    first = record.get("from", 1)
    if type(first) is not int or first < 1 or first > max(1, len(turns)):
        raise BadRecordError(f"from is {_shown(first)}; it is the index of a turn, 1 to {max(1, len(turns))}")
    return first


def _thread(record: Mapping[str, Any]) -> str:
    """The thread that a record names, or nothing. Some corpora number their threads."""
    value = next((record[name] for name in _THREAD_FIELDS if record.get(name) not in (None, "")), "")
    return str(value) if type(value) is int else text_of(value, "thread")


def _texts(value: Any, name: str) -> list[str]:
    if not isinstance(value, list):
        raise BadRecordError(f"{name} is {_shown(value)}; a list of texts is read")
    return [text_of(each, f"{name}[{place}]") for place, each in enumerate(value)]


def text_of(value: Any, name: str) -> str:
    """The value, if it is a text that a file can hold.

    Raises:
        BadRecordError: it is none; `name` says where it stands.
    """
    if not isinstance(value, str):
        raise BadRecordError(f"{name} is {_shown(value)}; a text is read")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRecordError(f"{name} holds half of a surrogate pair (\\ud800 to \\udfff), which is no text") from None
    return value


def _shown(value: Any) -> str:
    """A value in few characters, whatever its size."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value[:40] if isinstance(value, str) else value)[:40]
