"""Corpora: how their files are read, their settings, licences and origins.

Readers share the rest: records and dialogues with their faults, JSON arrays, XML, lines with a tab.
"""

from __future__ import annotations

import itertools
import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rejoinder.corpora.lines import Block, Reading, open_lines, open_pieces
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import Split, content_thread, thread_share
from rejoinder.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from lxml.etree import _Element


@dataclass(frozen=True)
class Input:
    """A file to read."""

    path: Path
    part: Split | None = None  # the split of its examples; None: the hash of each thread decides

    @property
    def size(self) -> int:
        """Its bytes; 0 for a pipe, whose size nobody knows."""
        return self.path.stat().st_size if self.path.is_file() else 0


@dataclass(frozen=True)
class NoSettings:
    """Settings of a corpus that has none."""


@dataclass(frozen=True)
class Shares:
    """Settings of a corpus whose parts may have other shares than those of `split_of`."""

    valid_share: float = 0.02
    """Share of the threads that are for validation."""
    test_share: float = 0.1
    """Share of the threads that are for testing."""

    def __post_init__(self) -> None:
        negative = self.valid_share < 0 or self.test_share < 0
        if negative or not self.valid_share + self.test_share < 1:
            raise InputError(
                "valid_share and test_share must be 0 or more and leave something for training, "
                f"not {self.valid_share} and {self.test_share}"
            )


def split_by_shares(thread: str, settings: Shares) -> Split:
    """Return the part of a thread: as `split_of`, with the shares of the settings."""
    left = 1 - thread_share(thread)
    if left < settings.test_share:
        return "test"
    return "valid" if left < settings.test_share + settings.valid_share else "train"


@dataclass(frozen=True)
class Corpus:
    """A corpus: data, and pure functions at module level, which worker processes get by name.

    A corpus has `read`, or `scatter` and `assemble` if its threads are scattered over its files.
    """

    name: str  # as in `rejoinder data NAME`
    title: str  # one line
    reads: str  # one line: the files that it reads, in their published format
    licence: str  # of the data, as far as its publisher says
    origin: str  # from which a user gets the files
    expected: str = ""  # counts that the source publishes, to compare with
    # (file, reading, settings) -> the file's examples, in its order. Raises InputError; a bad line
    # goes to `Reading.bad_line`, a record that the corpus' own rules leave out to `Reading.drop`.
    read: Callable[[Path, Reading, Any], Iterator[Example]] | None = None
    # (block, reading, settings) -> a record of each line that counts, as columns without nulls, the
    # first of which is the name of the thread. `assemble` gets all records of a thread in one call.
    scatter: Callable[[Block, Reading, Any], pa.RecordBatch] | None = None
    # (records of many whole threads in the order of the input, reading, settings) -> examples, some
    # thousands at a time (`examples.BASE_SCHEMA`), in an order that follows from the records alone.
    assemble: Callable[[pa.RecordBatch, Reading, Any], Iterator[pa.RecordBatch]] | None = None
    # For a corpus in a package: finds the file to read, or raises MissingExtraError.
    packaged: Callable[[], Path] | None = None
    # (thread, settings) -> its split. Default: `split_of`. The part of an `Input` comes first.
    split: Callable[[str, Any], Split] | None = None
    # A frozen dataclass: each field has a default and, below it, a line of documentation, which
    # `corpora` shows; `__post_init__` raises InputError for a wrong combination. `--set name=value`
    # sets a field.
    settings: type = NoSettings


# Records: lines, objects and dialogues of a file, and what a bad one is.

R = TypeVar("R")
T = TypeVar("T")

_REMEMBERED_ROOTS = 1_000
_REMEMBERED_NEIGHBOURS = 100_000


class BadRecordError(ValueError):
    """A record that cannot be used; the message has the fault, without file and line."""


def parse_records(
    path: Path,
    reading: Reading,
    records: Iterable[tuple[int, R]],
    parse: Callable[[int, R], Iterable[T]],
) -> Generator[T]:
    """Yield the results of `parse` for each numbered record, all or none of them.

    BadRecordError makes a record a bad line. A `Dialogue` is complete: it is not listed before.
    """
    for number, record in records:
        reading.lines += 1
        try:
            parsed: Any = parse(number, record)
            results: Iterable[Any] = parsed if isinstance(parsed, Dialogue) else list(parsed)
        except BadRecordError as error:
            reading.bad_line(path, number, str(error))
        else:
            yield from results


def parse_lines(
    path: Path, reading: Reading, parse: Callable[[int, str], Iterable[T]]
) -> Generator[T]:
    """Yield the results of `parse` for each line that is not blank; see `parse_records`."""
    lines = open_lines(path, reading)
    full = ((number, line) for number, line in lines if line and not line.isspace())
    return parse_records(path, reading, full, parse)


def parse_object(line: str) -> dict[str, Any]:
    """Parse a line that holds a JSON object; BadRecordError: it does not."""
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
    """The examples of a dialogue, made on access: their contexts grow with its length squared."""

    spoken: Sequence[str]
    responses: Sequence[tuple[int, int]]  # index among `spoken`, and in the example's id
    name: str
    thread: str
    source: str
    reading: Reading

    def __len__(self) -> int:
        return len(self.responses)

    def __getitem__(self, number: Any) -> Any:
        index, name = self.responses[number]
        context = self.reading.newest(self.spoken[:index])
        return Example(context, self.spoken[index], f"{self.name}:{name}", self.thread, self.source)


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
    """Return an example for each turn from index `first` on, with the turns before it as context.

    With `responses`, only for turns whose index is in it. Blank turns are left out. The id of an
    example is `name:index of its response among the turns`.
    """
    indices = [index for index, turn in enumerate(turns) if turn.strip()]
    chosen = [
        (count, index)
        for count, index in enumerate(indices)
        if count > 0 and index >= first and (responses is None or index in responses)
    ]
    return Dialogue([turns[index] for index in indices], chosen, name, thread, source, reading)


class Threads:
    """Threads for dialogues of a file that name none: the hash of a dialogue's whole text.

    A line whose first new response comes later than at index 1 shows that the file holds reply
    trees, one line a branch (whose first turns may be missing). Such a line belongs to the thread
    of an earlier line that has the two turns before its first new response one after the other, or
    that begins with the same turn. From there on the latter also holds for lines that are new from
    index 1. It remembers some 20 MB.
    """

    def __init__(self) -> None:
        self._trees = False
        self._roots: OrderedDict[int, str] = OrderedDict()
        self._neighbours: OrderedDict[int, str] = OrderedDict()

    def find(self, turns: Sequence[str], first: int) -> str:
        """Return the thread of a dialogue; call it once for each dialogue, in the file's order."""
        root = hash(tuple(turns[:1]))
        neighbours = [hash(pair) for pair in itertools.pairwise(turns)]
        thread = self._neighbours.get(neighbours[first - 2]) if first > 1 else None
        self._trees = self._trees or first > 1
        if self._trees and thread is None:
            thread = self._roots.get(root)
        if thread is None:
            thread = content_thread(turns)
        _remember(self._roots, [root], thread, _REMEMBERED_ROOTS)
        _remember(self._neighbours, neighbours, thread, _REMEMBERED_NEIGHBOURS)
        return thread


def _remember(recent: OrderedDict[int, str], keys: Iterable[int], thread: str, limit: int) -> None:
    for key in keys:
        recent[key] = thread
        recent.move_to_end(key)
        if len(recent) > limit:
            recent.popitem(last=False)


# JSON arrays and XML, read piece by piece with libraries, and lines with a tab.

MAX_DEPTH = 16  # most objects or arrays within each other; the corpora have five or so


class _Pieces:
    """A file for a parser to read from."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self._pieces = open_pieces(path, reading)
        self._held = next(self._pieces, b"").removeprefix(b"\xef\xbb\xbf")

    def read(self, size: int) -> bytes:
        self._held = self._held or next(self._pieces, b"")
        piece, self._held = (
            (self._held, b"") if size < 0 else (self._held[:size], self._held[size:])
        )
        return piece


def tab_pairs(path: str | Path, reading: Reading, wanted: str) -> Iterator[tuple[str, str]]:
    """Yield the texts before and after a line's first tab; `wanted` describes a good line."""
    for number, line in open_lines(path, reading):
        name, _, rest = (part.strip() for part in line.partition("\t"))
        if name and rest:
            yield name, rest
        elif line.strip():
            reading.bad_line(path, number, wanted)


def json_objects(path: Path, reading: Reading) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file that holds one JSON array, one at a time.

    InputError, even if bad lines are skipped: no such array, or it is cut off or nested too deep.
    """
    import ijson

    count = 1
    depth = 0
    builder = ijson.ObjectBuilder()
    try:
        # Not `ijson.items`, whose memory grows with the square of the depth.
        for event, value in ijson.basic_parse(_Pieces(path, reading), use_float=True):
            if depth == 0 and event != "start_array":
                raise InputError(f'{path}:1: no JSON array; "[", objects and "]" are read')
            if depth == 1 and event not in ("start_map", "end_array"):
                kind = event.removeprefix("start_")
                raise InputError(f"{path}:{count}: object {count}: a JSON {kind}; objects are read")
            depth += event.startswith("start_") - event.startswith("end_")
            if depth > MAX_DEPTH:
                raise InputError(
                    f"{path}:{count}: object {count}: JSON nested more than {MAX_DEPTH} deep"
                )
            if depth > 1 or event == "end_map":
                builder.event(event, value)
            if depth == 1 and event == "end_map":
                yield builder.value
                count = count + 1
                builder = ijson.ObjectBuilder()
    except ijson.JSONError as error:
        text = error.args[0]
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(error)
        reason = text.partition("\n")[0].strip(". ")
        raise InputError(
            f"{path}:{count}: object {count}: {reason}; copy or download it again"
        ) from None


def xml_elements(
    path: Path, reading: Reading, tags: Collection[str], root: str = ""
) -> Iterator[_Element]:
    """Yield the elements of an XML file with one of these tags, in any namespace.

    An element is valid until the next one is read. `root` names the outermost element; empty: any.
    InputError: no XML, cut off, entities, or beyond the parser's limits.
    """
    from lxml import etree

    inside = 0
    # The parser limits a text's length, depth, and how much entities may grow.
    options = {
        "resolve_entities": False,
        "no_network": True,
        "remove_comments": True,
        "remove_pis": True,
    }
    events = etree.iterparse(_Pieces(path, reading), ("start", "end"), **options)
    try:
        for event, element in events:
            # Not by `QName`, which refuses a tag such as ":a", which the parser takes.
            name = element.tag.rpartition("}")[2]
            wanted = name in tags
            if event == "start":
                if root and element.getparent() is None and name != root:
                    raise InputError(
                        f"{path}:{element.sourceline}: <{name[:40]}> instead of <{root}>"
                    )
                inside += wanted
                continue
            inside -= wanted
            if wanted:
                if next(element.iter(etree.Entity), None) is not None:
                    raise InputError(
                        f"{path}:{element.sourceline}: an entity; "
                        "files that need entities are not read"
                    )
                yield element
            if not inside and (parent := element.getparent()) is not None:
                parent.remove(element)
    except etree.XMLSyntaxError as error:
        first = next(iter(events.error_log), None)  # the error itself may know no line
        line = first.line if first else error.lineno
        message = first.message if first else str(error.msg)
        reason = " ".join(message.split())
        raise InputError(
            f"{path}:{line}: not XML, or cut off ({reason}); copy or download it again"
        ) from None
