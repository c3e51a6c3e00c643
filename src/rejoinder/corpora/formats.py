"""Files of a user's own: JSON lines, CSV, chats, questions with answers, labelled texts.

| form | a line |
|---|---|
| pair | `{"context": ["Hi!", "Hello."], "response": "How are you?"}`, also with `candidates` and `label` |
| dialogue | `{"turns": ["Hi!", "Hello.", "How are you?"]}`, also with `from`: the first turn that is a new response |
| chat | `{"messages": [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello."}]}` |
| DATA19 | `{"context": "Hello.", "context/0": "Hi!", "response": "How are you?"}`, extra contexts newest first |
| FAQ | `{"question": "Where is my card?", "answer": "..."}`, or `"questions": ["Where is my card?", "Card?"]` |

Every form may have `id`, `thread` and `source`; other fields are never used. Without `thread`, that of a dialogue is
the hash of its text (see `dialogues.Threads`) and that of a pair the hash of the first message of its context, so that
pairs which unfold one conversation stay together. Of a chat, messages of the roles system, developer, tool and
function are left out.

CSV has two columns, context and response, separated by commas; double quotes protect commas, line ends and (doubled)
quotes. A first row that holds `context` and `response`, or `question` and `answer` (in any case and order), is a
header: then further columns are allowed, of which `context/0`, ..., `id`, `thread` and `source` mean what they mean in
JSON.

Blank messages (nothing but white space) are left out of contexts and dialogues; a blank response, or a context with
nothing else, is a bad line. Blank lines and rows are skipped. All other texts stay as they are.
"""

from __future__ import annotations

import csv
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from rejoinder.corpora.corpus import Corpus, NoSettings
from rejoinder.corpora.dialogues import Threads, dialogue_examples
from rejoinder.corpora.example import Example, Split
from rejoinder.corpora.lines import MAX_LINE_BYTES, Reading, open_lines, strip_compression
from rejoinder.corpora.splits import content_thread, thread_share
from rejoinder.errors import InputError

T = TypeVar("T")

_EARLIER_CONTEXT = re.compile(r"context/(\d{1,9})")
"""Names of DATA19's extra contexts; `context/0` is the newest of them."""
_THREAD_FIELDS = ("thread", "thread_id", "product_id", "file_id")
"""The thread in our own files, and in DATA19's of Reddit, AmazonQA and OpenSubtitles."""
_NO_TURNS = frozenset({"system", "developer", "tool", "function"})
"""Roles whose messages nobody said to anybody."""
_HEADERS = ({"context", "response"}, {"question", "answer"})
_COLUMNS = frozenset({"context", "response", "id", "source", *_THREAD_FIELDS})


class BadRecordError(ValueError):
    """A record that cannot be used; the message says why, without saying where."""


def parse_lines(path: Path, reading: Reading, parse: Callable[[int, str], Iterable[T]]) -> Generator[T]:
    """Yield what `parse` makes of each line that is not blank; a line for which it raises BadRecordError is bad."""
    for number, line in open_lines(path, reading):
        if not line or line.isspace():
            continue
        reading.lines += 1
        try:
            # All of a line or nothing: a dialogue whose last turn is bad gives no example.
            found = list(parse(number, line))
        except BadRecordError as error:
            reading.bad_line(path, number, str(error))
        else:
            yield from found


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


# Readers of files


def read_jsonl(path: str | Path, reading: Reading | None = None, _: NoSettings | None = None) -> Generator[Example]:
    """Read the examples of a file of JSON lines, compressed or not.

    Raises:
        InputError: a fault of the file; or of a line, with its number, unless bad lines are skipped.
    """
    path, reading, threads = Path(path), reading or Reading(), Threads()
    source = strip_compression(path).stem

    def parse(number: int, line: str) -> Iterator[Example]:
        return record_examples(parse_object(line), f"{source}:{number}", source, reading, threads)

    yield from parse_lines(path, reading, parse)


def read_csv(path: str | Path, reading: Reading | None = None, _: NoSettings | None = None) -> Generator[Example]:
    """Read the examples of a CSV file, compressed or not.

    Raises:
        InputError: a fault of the file; or of a row, with the number of its first line, unless bad rows are skipped.
    """
    path, reading, threads = Path(path), reading or Reading(), Threads()
    source = strip_compression(path).stem
    columns: list[str] | None = None
    for number, row in csv_rows(path, reading):
        if columns is None:
            names = [name.strip().lower() for name in row]
            columns = ["context", "response"]
            if any(header <= set(names) for header in _HEADERS) and len(set(names)) == len(names):
                same = {} if "context" in names else {"question": "context", "answer": "response"}
                columns = [same.get(name, name) for name in names]
                reading.notes.append(f"{path}:{number}: a header, not an example: {', '.join(row)[:60]}")
                continue
        reading.lines += 1
        if len(row) != len(columns):
            reason = f"{len(row)} columns instead of {len(columns)}; put texts with commas in double quotes"
            reading.bad_line(path, number, reason)
            continue
        cells = zip(columns, row, strict=True)
        record = {name: cell for name, cell in cells if name in _COLUMNS or _EARLIER_CONTEXT.fullmatch(name)}
        try:
            yield from record_examples(record, f"{source}:{number}", source, reading, threads)
        except BadRecordError as error:
            reading.bad_line(path, number, str(error))


def csv_rows(path: Path, reading: Reading) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file that are not blank, each with the number of the line on which it begins.

    Raises:
        InputError: a fault of the file; or of a row, unless bad rows are skipped.
    """
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


# One record


def record_examples(
    record: Mapping[str, Any], name: str, source: str, reading: Reading, threads: Threads
) -> Iterator[Example]:
    """Make the examples of a record. Blank messages of a context or dialogue are left out and counted.

    Args:
        record: in one of the forms above but the FAQ's.
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
        raise BadRecordError(f"no context and response, turns, or messages; {_fields(record)}")
    first = _first_response(record, turns)
    thread = _thread(record) or threads.find(turns, first)
    reading.blank_messages += sum(not turn.strip() for turn in turns)
    examples = dialogue_examples(turns, name=name, thread=thread, source=source, first=first, reading=reading)
    count = 0
    for count, example in enumerate(examples, 1):  # noqa: B007 (used after the loop)
        yield example
    reading.without_reply += count == 0


def spoken_turns(record: Mapping[str, Any]) -> tuple[list[str], int]:
    """Return the turns of a dialogue that are not blank, and the place among them of the first new response.

    Raises:
        BadRecordError: as `record_examples`.
    """
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
            raise BadRecordError(f"context but no response; {_fields(record)}")
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
    numbers = {int(match[1]): key for key in record if (match := _EARLIER_CONTEXT.fullmatch(key))}
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


def _fields(record: Mapping[str, Any]) -> str:
    return f"the fields are {', '.join(list(record)[:6])[:100] or 'none'}"


def _shown(value: Any) -> str:
    """A value in few characters, whatever its size."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value[:40] if isinstance(value, str) else value)[:40]


# Frequently asked questions


@dataclass(frozen=True)
class FaqSettings:
    """What is held out."""

    thread: Literal["question", "answer"] = "question"
    """`question`: the ways to ask for one answer may fall into different parts; `answer`: they stay together."""
    valid_share: float = 0.02
    """Share of the threads that are for validation."""
    test_share: float = 0.1
    """Share of the threads that are for testing."""

    def __post_init__(self) -> None:
        if not (self.valid_share >= 0 and self.test_share >= 0 and self.valid_share + self.test_share < 1):
            raise InputError(
                "valid_share and test_share must be 0 or more and leave something for training, not "
                f"{self.valid_share} and {self.test_share}"
            )


def read_faq(
    path: str | Path, reading: Reading | None = None, settings: FaqSettings | None = None
) -> Iterator[Example]:
    """Read questions and answers from CSV (if the file is named so) or JSON lines; each question is an example.

    Several lines may have the same answer. What a test on the data asks is a matter of the settings: new words for a
    known question, or questions whose answer was never seen.

    Raises:
        InputError: a fault of the file; or of a line, with its number, unless bad lines are skipped.
    """
    path, reading, settings = Path(path), reading or Reading(), settings or FaqSettings()
    name = strip_compression(path).stem

    def parse(number: int, line: str) -> Iterator[Example]:
        questions, answer = _questions(parse_object(line))
        return (Example((text,), answer, f"{name}:{number}:{place}") for place, text in enumerate(questions))

    is_table = strip_compression(path).suffix.lower() == ".csv"
    for example in read_csv(path, reading) if is_table else parse_lines(path, reading, parse):
        thread = content_thread([example.context[-1] if settings.thread == "question" else example.response])
        yield replace(example, thread=thread, source="faq")


def split_faq(example: Example, settings: FaqSettings) -> Split:
    """Return the part of an example: as `splits.split_of`, with the shares of the settings."""
    left = 1 - thread_share(example.thread)
    if left < settings.test_share:
        return "test"
    return "valid" if left < settings.test_share + settings.valid_share else "train"


def _questions(record: Mapping[str, Any]) -> tuple[list[str], str]:
    asked = record.get("question", record.get("questions"))
    questions: list[Any] = asked if isinstance(asked, list) else [asked]
    texts = [*questions, record.get("answer")]
    if not questions or not all(isinstance(text, str) and text.strip() for text in texts):
        raise BadRecordError(
            "question (a text), or questions (a list of texts), and answer (a text) are read; none may be missing or "
            f"blank; {_fields(record)}"
        )
    return [text_of(question, "question") for question in questions], text_of(record["answer"], "answer")


# Texts with a category each


@dataclass(frozen=True)
class Labelled:
    """n texts and the category of each, customers' questions with their intents for example."""

    texts: tuple[str, ...]
    categories: tuple[str, ...]

    def frequent(self, count: int) -> list[str]:
        """Return the categories with the most texts, equal ones in the order in which they come."""
        return [name for name, _ in Counter(self.categories).most_common(count)]

    def only(self, names: Sequence[str]) -> Labelled:
        """Return the texts of these categories; InputError if no text has one of them."""
        known = dict.fromkeys(self.categories)
        for name in names:
            if name not in known:
                raise InputError(f"there is no category '{name}'; there are {', '.join(known)}")
        return self._rows([place for place, name in enumerate(self.categories) if name in names])

    def sample(self, limit: int, seed: int) -> Labelled:
        """Return at most `limit` texts, each equally likely, in their order."""
        count = len(self.texts)
        return self if count <= limit else self._rows(sorted(random.Random(seed).sample(range(count), limit)))

    def _rows(self, places: Sequence[int]) -> Labelled:
        return Labelled(tuple(self.texts[i] for i in places), tuple(self.categories[i] for i in places))


def read_labelled(path: str | Path) -> Labelled:
    """Read a CSV file, compressed or not, whose header names a column of texts and one of categories, as BANKING77's.

    Raises:
        InputError: with file and line: no such columns, or a row without a text or category.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; give a CSV file with the columns text and category")
    rows = csv_rows(path, Reading())
    header = [cell.strip().lower() for cell in next(rows, (1, []))[1]]
    places = []
    for names in (("text", "question", "utterance"), ("category", "label", "intent")):
        place = next((header.index(name) for name in names if name in header), None)
        if place is None:
            raise InputError(f"{path}: no column {' or '.join(names)} in its first row: {', '.join(header)[:80]}")
        places.append(place)
    found = []
    for line, row in rows:
        if len(row) != len(header) or not all(row[place].strip() for place in places):
            raise InputError(f"{path}:{line}: a row has {len(header)} cells, a text and its category among them")
        found.append((row[places[0]], row[places[1]].strip()))
    if not found:
        raise InputError(f"{path} holds no texts; a row has a text and its category")
    texts, categories = zip(*found, strict=True)
    return Labelled(texts, categories)


JSONL = Corpus(
    name="jsonl",
    title="Your own conversations or pairs, one JSON object a line.",
    reads='*.jsonl: {"turns": [...]}, {"messages": [...]}, {"context": [...], "response": "..."}, DATA19\'s flat form',
    licence="yours",
    origin="your own export",
    expected="",
    read=read_jsonl,
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
)
FAQ = replace(
    JSONL,
    name="faq",
    title="Your own questions with their answers, several questions an answer.",
    reads="*.csv with the columns question and answer, or *.jsonl with question (or questions) and answer",
    read=read_faq,
    split=split_faq,
    settings=FaqSettings,
)
