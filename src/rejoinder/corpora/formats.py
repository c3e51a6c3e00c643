"""Files of a user's own: JSON lines, CSV, chats, questions with answers; docs/data.md shows the forms.

The thread of a dialogue that names none is the hash of its text (`Threads`), that of a pair the hash of its context's
first message, so that pairs which unfold one conversation stay together.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from rejoinder.conversations import NO_TURNS, is_call, join_turns
from rejoinder.corpora.corpus import Corpus, Shares, split_by_shares
from rejoinder.corpora.example import Example, content_thread
from rejoinder.corpora.lines import MAX_LINE_BYTES, Reading, open_lines, strip_compression
from rejoinder.corpora.personal import redact_example
from rejoinder.errors import InputError

R = TypeVar("R")
T = TypeVar("T")

_EARLIER_CONTEXT = re.compile(r"context/(\d{1,9})")  # DATA19's extra contexts; `context/0` is the newest of them
_THREAD_FIELDS = ("thread", "thread_id", "product_id", "file_id")  # ours; DATA19's Reddit, AmazonQA, OpenSubtitles
_HEADERS = ({"context", "response"}, {"question", "answer"})
_COLUMNS = frozenset({"context", "response", "id", "source", *_THREAD_FIELDS})
_REMEMBERED_ROOTS, _REMEMBERED_NEIGHBOURS = 1_000, 100_000


class BadRecordError(ValueError):
    """A record that cannot be used; the message says why, without saying where."""


def parse_records(
    path: Path, reading: Reading, records: Iterable[tuple[int, R]], parse: Callable[[int, R], Iterable[T]]
) -> Generator[T]:
    """Yield what `parse` makes of each numbered record, all of it or nothing; BadRecordError makes it a bad line.

    A `Dialogue` is all there and need not be gone through before.
    """
    for number, record in records:
        reading.lines += 1
        try:
            made: Any = parse(number, record)
            found: Any = made if isinstance(made, Dialogue) else list(made)
        except BadRecordError as error:
            reading.bad_line(path, number, str(error))
        else:
            yield from found


def parse_lines(path: Path, reading: Reading, parse: Callable[[int, str], Iterable[T]]) -> Generator[T]:
    """Yield what `parse` makes of each line that is not blank, as `parse_records` does."""
    lines = ((number, line) for number, line in open_lines(path, reading) if line and not line.isspace())
    return parse_records(path, reading, lines, parse)


def parse_object(line: str) -> dict[str, Any]:
    """Parse a line that holds a JSON object; BadRecordError if it does not."""
    try:
        record = json.loads(line)
    except RecursionError:
        raise BadRecordError("JSON nested too deep; a line holds one flat object") from None
    except ValueError as error:
        raise BadRecordError(f"not JSON ({error}); one object a line is read") from None
    if not isinstance(record, dict):
        raise BadRecordError(f"JSON, but a {type(record).__name__}; one object a line is read")
    return record


@dataclass(frozen=True, slots=True)
class Dialogue(Sequence[Example]):
    """The examples of a dialogue, each made when it is asked for: their contexts grow with the square of its length."""

    spoken: Sequence[str]
    responses: Sequence[tuple[int, int]]  # place among `spoken`, and in the name
    name: str
    thread: str
    source: str
    reading: Reading

    def __len__(self) -> int:
        return len(self.responses)

    def __getitem__(self, number: Any) -> Any:
        place, index = self.responses[number]
        context = self.reading.newest(self.spoken[:place])
        return Example(context, self.spoken[place], f"{self.name}:{index}", self.thread, self.source)


def dialogue_examples(
    turns: Sequence[str],
    *,
    name: str,
    thread: str,
    source: str,
    reading: Reading,
    first: int = 1,
    responses: Container[int] | None = None,
) -> Dialogue:
    """Make an example of each turn from index `first` on: the turn is the response, those before it are the context.

    With `responses`, only of those whose index is in it. Blank turns are left out as if nobody had spoken. An example's
    id is `name:index of its response among the turns`.
    """
    places = [index for index, turn in enumerate(turns) if turn.strip()]
    spoken = [turns[index] for index in places]
    chosen = [
        (count, index)
        for count, index in enumerate(places)
        if count > 0 and index >= first and (responses is None or index in responses)
    ]
    return Dialogue(spoken, chosen, name, thread, source, reading)


class Threads:
    """Threads for the dialogues of one file that name none: the hash of a dialogue's whole text.

    A line whose first new response comes later than at index 1 shows that the file holds reply trees, a line for each
    branch (whose first turns may be cut off). Such a line belongs to the thread of an earlier line that has the two
    turns before its first new response one after the other, or that begins with the same turn. From there on the last
    also holds for lines that are new from index 1. What is remembered takes some 20 MB.
    """

    def __init__(self) -> None:
        self._trees = False
        self._roots: OrderedDict[int, str] = OrderedDict()
        self._neighbours: OrderedDict[int, str] = OrderedDict()

    def find(self, turns: Sequence[str], first: int) -> str:
        """Return the thread of a dialogue; ask once for each dialogue, in the order of the file."""
        root, neighbours = hash(tuple(turns[:1])), [hash(pair) for pair in itertools.pairwise(turns)]
        found = self._neighbours.get(neighbours[first - 2]) if first > 1 else None
        self._trees = self._trees or first > 1
        if self._trees and found is None:
            found = self._roots.get(root)
        thread = content_thread(turns) if found is None else found
        remembered = ((self._roots, [root], _REMEMBERED_ROOTS), (self._neighbours, neighbours, _REMEMBERED_NEIGHBOURS))
        for recent, keys, most in remembered:
            for key in keys:
                recent[key] = thread
                recent.move_to_end(key)
                if len(recent) > most:
                    recent.popitem(last=False)
        return thread


@dataclass(frozen=True)
class OwnSettings:
    """How data of one's own is read."""

    redact: bool = False
    """Replace e-mail addresses, card numbers, IBANs and phone numbers by <email>, <card>, <iban> and <phone>."""

    def finish(self, examples: Generator[Example], reading: Reading) -> Generator[Example]:
        """Yield the examples as they are to be written."""
        for example in examples:
            finished = redact_example(example) if self.redact else example
            reading.redacted += finished != example
            yield finished


@dataclass(frozen=True)
class ChatSettings(OwnSettings):
    """How chats are read."""

    respond: str = "assistant"
    """Of messages with roles, whose are responses; several roles with commas between them, any for all."""

    def __post_init__(self) -> None:
        if not all(role.strip() for role in self.respond.split(",")):
            raise InputError(f"respond is {self.respond!r}; give a role, several (agent,bot), or any")

    def responds(self, role: str) -> bool:
        """Return whether the messages of a role are responses."""
        return self.respond == "any" or role in map(str.strip, self.respond.split(","))


def read_jsonl(
    path: str | Path, reading: Reading | None = None, settings: ChatSettings | None = None
) -> Generator[Example]:
    """Read the examples of a file of JSON lines."""
    settings = settings or ChatSettings()
    path, reading, threads = Path(path), reading or Reading(), Threads()
    source = strip_compression(path).stem

    def parse(number: int, line: str) -> Sequence[Example]:
        return record_examples(parse_object(line), f"{source}:{number}", source, reading, threads, settings.responds)

    return settings.finish(parse_lines(path, reading, parse), reading)


def read_csv(
    path: str | Path, reading: Reading | None = None, settings: OwnSettings | None = None
) -> Generator[Example]:
    """Read the examples of a CSV file; a bad row has its first line's number."""
    path, reading, threads = Path(path), reading or Reading(), Threads()
    source, columns = strip_compression(path).stem, ["context", "response"]

    def parse(number: int, row: list[str]) -> Sequence[Example]:
        if len(row) != len(columns):
            advice = "put texts with commas in double quotes"
            raise BadRecordError(f"{len(row)} columns instead of {len(columns)}; {advice}")
        cells = zip(columns, row, strict=True)
        record = {name: cell for name, cell in cells if name in _COLUMNS or _EARLIER_CONTEXT.fullmatch(name)}
        return record_examples(record, f"{source}:{number}", source, reading, threads)

    rows = csv_rows(path, reading)
    for number, row in itertools.islice(rows, 1):
        names = [name.strip().lower() for name in row]
        if any(header <= set(names) for header in _HEADERS) and len(set(names)) == len(names):
            same = {} if "context" in names else {"question": "context", "answer": "response"}
            columns = [same.get(name, name) for name in names]
            reading.notes.append(f"{path}:{number}: a header, not an example: {', '.join(row)[:60]}")
        else:
            rows = itertools.chain([(number, row)], rows)
    yield from (settings or OwnSettings()).finish(parse_records(path, reading, rows, parse), reading)


def csv_rows(path: Path, reading: Reading) -> Iterator[tuple[int, list[str]]]:
    """Give the rows of a CSV file that are not blank, each with the number of the line on which it begins."""
    # The limit is the library's one setting for all its readers, and lower than a message may be long.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    last = 0

    def lines() -> Iterator[str]:
        nonlocal last
        for number, line in open_lines(path, reading):
            last = number
            yield f"{line}\n"  # by which the csv module tells a line end within quotes from the end of a row

    table = csv.reader(lines(), strict=True)
    while True:
        start = last + 1
        try:
            row = next(table)
        except StopIteration:
            return
        except csv.Error as error:
            reading.lines += 1
            reading.bad_line(path, start, f"not CSV ({error}); write a double quote within quotes twice")
            continue
        if any(cell.strip() for cell in row):
            yield start, row


def record_examples(
    record: Mapping[str, Any],
    name: str,
    source: str,
    reading: Reading,
    threads: Threads,
    responds: Callable[[str], bool] = ChatSettings().responds,
) -> Sequence[Example]:
    """Make the examples of a record in any form but the FAQ's, or raise BadRecordError."""
    name = text_of(record.get("id") or name, "id")
    source = text_of(record.get("source") or source, "source")
    if "turns" not in record and "messages" not in record:
        if "context" not in record:
            raise BadRecordError(f"no context and response, turns, or messages; {_fields(record)}")
        return [_pair(record, name, source, reading)]
    responses = None
    if "turns" in record:
        turns = _texts(record["turns"], "turns")
    else:
        spoken = join_turns(_spoken(record["messages"], reading))
        turns = [text for _, text in spoken]
        responses = {place for place, (role, _) in enumerate(spoken) if role is not None and responds(role)}
    first = _first_response(record, turns)
    thread = _thread(record) or threads.find(turns, first)
    reading.blank_messages += sum(not turn.strip() for turn in turns)
    found = dialogue_examples(
        turns, name=name, thread=thread, source=source, reading=reading, first=first, responses=responses
    )
    reading.without_reply += not found
    return found


def spoken_turns(record: Mapping[str, Any]) -> tuple[list[str], int]:
    """Return a dialogue's turns that are not blank, and the place among them of the first new response."""
    if "turns" not in record:
        raise BadRecordError(f"no turns; {_fields(record)}")
    turns = _texts(record["turns"], "turns")
    first = _first_response(record, turns)
    blank = sum(not turn.strip() for turn in turns[:first])
    return [turn for turn in turns if turn.strip()], max(1, first - blank)


def text_of(value: Any, name: str) -> str:
    """Return the value if it is a text that a file can hold, else raise BadRecordError about what `name` holds."""
    if not isinstance(value, str):
        raise BadRecordError(f"{name} is {_shown(value)}; a text is read")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRecordError(f"{name} holds half of a surrogate pair (\\ud800 to \\udfff), which is no text") from None
    return value


def _pair(record: Mapping[str, Any], name: str, source: str, reading: Reading) -> Example:
    given = record["context"]
    messages = [*earlier_context(record), given] if isinstance(given, str) else _texts(given, "context")
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
    """Return response, candidates and label; a record with candidates may leave out the response or the label."""
    candidates, label = tuple(_texts(record.get("candidates") or [], "candidates")), record.get("label")
    count = len(candidates)
    if count == 0:
        if label is not None:  # elsewhere 0 says that this is not the response
            raise BadRecordError("a label but no candidates; it is the place of the response among them")
        if "response" not in record:
            raise BadRecordError(f"context but no response; {_fields(record)}")
        return text_of(record["response"], "response"), (), None
    if label is None:
        response = text_of(record.get("response"), "response")
        if (times := candidates.count(response)) != 1:
            raise BadRecordError(f"the response is {times} times among the candidates; give its place as label")
        return response, candidates, candidates.index(response)
    if type(label) is not int or not 0 <= label < count:
        raise BadRecordError(f"label is {_shown(label)}; with {count} candidates it is 0 to {count - 1}")
    if text_of(record.get("response", candidates[label]), "response") != candidates[label]:
        raise BadRecordError(f"candidate {label}, which label names, is not the response")
    return candidates[label], candidates, label


def earlier_context(record: Mapping[str, Any]) -> list[str]:
    """Return DATA19's extra contexts, oldest first: by number, since as text `context/10` comes before `context/2`."""
    numbers = {int(match[1]): key for key in record if (match := _EARLIER_CONTEXT.fullmatch(key))}
    return [text_of(record[numbers[number]], numbers[number]) for number in sorted(numbers, reverse=True)]


def _spoken(messages: Any, reading: Reading) -> list[tuple[str | None, str]]:
    """Return role and text of a chat's messages that are not blank and that somebody said; count all by their roles."""
    if not isinstance(messages, list):
        raise BadRecordError(f"messages is {_shown(messages)}; a list of objects with role and content is read")
    spoken: list[tuple[str | None, str]] = []
    roles = Counter[str]()
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRecordError(f"messages[{place}] is {_shown(message)}; an object with role and content is read")
        role = text_of(message["role"], f"messages[{place}].role")
        roles["tool" if is_call(message) else role] += 1
        if role not in NO_TURNS and not is_call(message):
            text = text_of(message.get("content"), f"messages[{place}].content")
            spoken.append((role, text))
    for role, count in roles.items():
        reading.roles[role] = reading.roles.get(role, 0) + count
    reading.blank_messages += sum(not text.strip() for _, text in spoken)
    return [(role, text) for role, text in spoken if text.strip()]


def _first_response(record: Mapping[str, Any], turns: Sequence[str]) -> int:
    first, most = record.get("from", 1), max(1, len(turns))
    if type(first) is not int or not 1 <= first <= most:
        raise BadRecordError(f"from is {_shown(first)}; it is the index of a turn, 1 to {most}")
    return first


def _thread(record: Mapping[str, Any]) -> str:
    """Return the thread that a record names, or nothing. Some corpora number their threads."""
    value = next((record[name] for name in _THREAD_FIELDS if record.get(name) not in (None, "")), "")
    return str(value) if type(value) is int else text_of(value, "thread")


def _texts(value: Any, name: str) -> list[str]:
    if not isinstance(value, list):
        raise BadRecordError(f"{name} is {_shown(value)}; a list of texts is read")
    return [text_of(each, f"{name}[{place}]") for place, each in enumerate(value)]


def _fields(record: Mapping[str, Any]) -> str:
    return f"the fields are {', '.join(list(record)[:6])[:100] or 'none'}"


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value[:40] if isinstance(value, str) else value)[:40]


@dataclass(frozen=True)
class FaqSettings(Shares, OwnSettings):
    """What is held out."""

    thread: Literal["question", "answer"] = "question"
    """`question`: the ways to ask for one answer may fall into different parts, so that a test asks new words for a
    known question; `answer`: they stay together, so that a test asks for answers that were never seen."""


def read_faq(path: Path, reading: Reading, settings: FaqSettings) -> Iterator[Example]:
    """Read questions and answers from CSV (if the file is named so) or JSON lines; each question is an example."""
    name = strip_compression(path).stem

    def parse(number: int, line: str) -> Iterator[Example]:
        questions, answer = _questions(parse_object(line))
        return (Example((text,), answer, f"{name}:{number}:{place}") for place, text in enumerate(questions))

    is_table = strip_compression(path).suffix.lower() == ".csv"
    found = read_csv(path, reading) if is_table else parse_lines(path, reading, parse)
    for example in settings.finish(found, reading):
        thread = content_thread([example.context[-1] if settings.thread == "question" else example.response])
        yield replace(example, thread=thread, source="faq")


def _questions(record: Mapping[str, Any]) -> tuple[list[str], str]:
    asked = record.get("question", record.get("questions"))
    questions: list[Any] = asked if isinstance(asked, list) else [asked]
    texts = [*questions, record.get("answer")]
    if not questions or not all(isinstance(text, str) and text.strip() for text in texts):
        wanted = "question (a text), or questions (a list of texts), and answer (a text) are read"
        raise BadRecordError(f"{wanted}; none may be missing or blank; {_fields(record)}")
    return [text_of(question, "question") for question in questions], text_of(record["answer"], "answer")


JSONL = Corpus(
    name="jsonl",
    title="Your own conversations or pairs, one JSON object a line.",
    reads='*.jsonl: {"turns": [...]}, {"messages": [...]}, {"context": [...], "response": "..."}, DATA19\'s flat form',
    licence="yours",
    origin="your own export",
    read=read_jsonl,
    settings=ChatSettings,
)
DIALOGUES = replace(
    JSONL,
    name="dialogues",
    title="Published dialogues, one a line; a line may repeat turns of an earlier one.",
    reads='*.jsonl.zst (also with --long): {"id", "source", "turns": [...]}, with "from": the first turn that is new',
    licence="each file its own",
    origin="each file its own",
)
CSV = replace(
    JSONL,
    name="csv",
    title="Your own pairs of what was said and the response to it, one a row.",
    reads="*.csv with the columns context and response, or question and answer",
    read=read_csv,
    settings=OwnSettings,
)
FAQ = replace(
    JSONL,
    name="faq",
    title="Your own questions with their answers, several questions an answer.",
    reads="*.csv with the columns question and answer, or *.jsonl with question (or questions) and answer",
    read=read_faq,
    split=split_by_shares,
    settings=FaqSettings,
)
