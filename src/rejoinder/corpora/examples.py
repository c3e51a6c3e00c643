"""Examples on disk, read and written; memory holds one block of rows at a time.

An example is a row of a Parquet table (zstd), with candidates or without. A data folder holds `train-*.parquet`,
`valid-*.parquet`, `test-*.parquet` and `data.json`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rejoinder.corpora.example import SPLITS, Example, Split, content_thread, split_of
from rejoinder.corpora.formats import ChatSettings, read_csv, read_jsonl
from rejoinder.corpora.lines import COMPRESSIONS, Counts, Reading, strip_compression
from rejoinder.errors import InputError
from rejoinder.files import Kind, atomic_file, refuse_endless

_TEXT, _TEXTS = pa.string(), pa.list_(pa.string())
BASE_SCHEMA = pa.schema([("id", _TEXT), ("thread", _TEXT), ("source", _TEXT), ("context", _TEXTS), ("response", _TEXT)])
CANDIDATE_SCHEMA = pa.schema([*BASE_SCHEMA, ("candidates", _TEXTS), ("label", pa.int32())])
GROUP_ROWS = 16_384  # most rows in a row group
GROUP_CHARACTERS = 1 << 25  # a row group is closed when its texts have this many: long messages do not fill the memory
BATCH_ROWS = 4_096  # rows handed out at once

# Columns of Parquet whose values come again, so that a dictionary saves space; in others it only costs time.
_REPEATED = ("thread", "source", "context.list.element", "candidates.list.element")
SUMMARY = "data.json"  # the file of a data folder that says what was read, kept and dropped, and that the folder is one
FORMAT = "rejoinder examples 1"
FOLDER = Kind(
    "a folder of examples",
    SUMMARY,
    lambda account: account["format"].startswith("rejoinder examples"),
    (SUMMARY, *(f"{split}-*.parquet" for split in SPLITS)),
)


def write_examples(examples: Iterable[Example], path: str | Path) -> int:
    """Write examples, all with candidates or none, to a Parquet file, whole or not at all, and return their number."""
    with atomic_file(path) as part, ExampleWriter(part) as writer:
        for example in examples:
            writer.add(example)
    return writer.count


class ExampleWriter:
    """Writes examples to a Parquet file as they come. A context manager; the file is complete when it ends."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._path = path
        self._rows: list[Example] = []
        self._characters = 0  # of the rows
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()
            self._writer = self._writer or _new_file(self._path, BASE_SCHEMA)
        if self._writer is not None:
            # After an error the file is thrown away, and that it cannot be closed (a full disk) would hide the reason.
            with contextlib.nullcontext() if kind is None else contextlib.suppress(OSError):
                self._writer.close()

    def add(self, example: Example) -> None:
        """Write an example, now or a little later; InputError as `write_examples`."""
        if self.count == 0:
            self._candidates = bool(example.candidates)
        elif self._candidates != bool(example.candidates):
            has, have = ("no candidates", "some") if self._candidates else ("candidates", "none")
            fault = f"example {example.id or self.count} has {has} and the ones before it have {have}"
            raise InputError(f"{fault}; make one data set of those with candidates and one of those without")
        self._rows.append(example)
        self.count += 1
        self._characters += characters(example)
        if len(self._rows) == GROUP_ROWS or self._characters >= GROUP_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            rows = batch_of(self._rows)
            self._writer = self._writer or _new_file(self._path, rows.schema)
            self._writer.write_table(pa.Table.from_batches([rows]))
        self._rows, self._characters = [], 0


def write_batches(batches: Iterable[pa.RecordBatch], path: Path) -> None:
    """Write batches of examples, all of one schema, to a Parquet file in row groups of at most `GROUP_ROWS`."""
    with contextlib.ExitStack() as stack:
        writer = None
        for group in _row_groups(batches):
            writer = writer or stack.enter_context(contextlib.closing(_new_file(path, group[0].schema)))
            writer.write_table(pa.Table.from_batches(group))
            group.clear()  # before the next rows are read
        if writer is None:
            _new_file(path, BASE_SCHEMA).close()


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        rest = batch
        while rest.num_rows:
            piece = rest.slice(0, GROUP_ROWS - rows)
            rest = rest.slice(piece.num_rows)
            group.append(piece)
            rows, size = rows + piece.num_rows, size + piece.nbytes
            if rows == GROUP_ROWS or size >= GROUP_CHARACTERS:
                yield group
                group, rows, size = [], 0, 0
    if group:
        yield group


def _new_file(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True, use_dictionary=[*_REPEATED])


def characters(example: Example) -> int:
    """Return the length of all texts of an example."""
    return len(example.response) + sum(map(len, (*example.context, *example.candidates)))


def batch_of(rows: Sequence[Example], schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Turn examples, at least one, into columns: those of the schema, or else all that they have."""
    schema = schema or (CANDIDATE_SCHEMA if rows[0].candidates else BASE_SCHEMA)
    arrays = [pa.array([getattr(row, each.name) for row in rows], each.type) for each in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def read_examples(path: str | Path, split: Split | None = None, *, reading: Reading | None = None) -> Iterator[Example]:
    """Read examples one after the other; InputError names the file, the line or row, and what is wrong.

    `path` is a data folder, a .parquet file, or a .jsonl or .csv file, perhaps compressed (.zst, .gz, .bz2, .xz), in
    the forms that `rejoinder.corpora.formats` reads; `split` a part of the folder (None: all), or of a file the
    examples whose threads belong to it (`split_of`). `reading` is for text files.
    """
    for piece in pieces_of(path, split, groups=0):
        yield from _examples(piece, reading)


def read_columns(
    path: str | Path, split: Split | None = None, columns: Sequence[str] = ("context", "response")
) -> Iterator[pa.RecordBatch]:
    """Read columns of examples, in the order given, as Arrow record batches of some thousand rows."""
    for piece in pieces_of(path, split, groups=0):
        yield from read_piece(piece, columns)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of some examples that is read on its own, by a task of an engine."""

    file: Path
    split: Split | None  # the part of the data that is to be picked out of the file; None: all of it
    groups: tuple[int, ...] | None  # the row groups of a Parquet file; None: the whole file


def pieces_of(path: str | Path, split: Split | None = None, groups: int = 8) -> Iterator[Piece]:
    """Cut examples into pieces: `groups` row groups of a data folder's files each (0: all); another file is one."""
    if split is not None and split not in SPLITS:
        raise InputError(f"there is no split {split!r}; allowed are {', '.join(SPLITS)}, or None for all")
    for file, part in _files(Path(path), split):
        if not groups or part is not None or not _is_table(file):
            yield Piece(file, part, None)
            continue
        with _damage_named(file), pq.ParquetFile(file) as table:
            count = table.num_row_groups
        for start in range(0, count, groups):
            yield Piece(file, None, tuple(range(start, min(start + groups, count))))


def read_piece(piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read columns of a piece; all pieces one after the other give what `read_columns` gives."""
    if unknown := [name for name in columns if name not in CANDIDATE_SCHEMA.names]:
        raise InputError(f"examples have no column {unknown[0]}; there are {', '.join(CANDIDATE_SCHEMA.names)}")
    if _is_table(piece.file) and piece.split is None:
        yield from _table_batches(piece.file, columns, piece.groups)
        return
    schema, rows = pa.schema([CANDIDATE_SCHEMA.field(name) for name in columns]), _examples(piece, None)
    while block := list(itertools.islice(rows, BATCH_ROWS)):
        yield batch_of(block, schema)


def _examples(piece: Piece, reading: Reading | None) -> Iterator[Example]:
    for example in _table_examples(piece.file) if _is_table(piece.file) else _text_examples(piece.file, reading):
        if piece.split is None or split_of(example.thread or content_thread(example.context[:1])) == piece.split:
            yield example


def _text_examples(file: Path, reading: Reading | None) -> Iterator[Example]:
    count, reading = 0, reading or Reading()
    with contextlib.closing((read_csv if _kind(file) == ".csv" else read_jsonl)(file, reading)) as examples:
        for count, example in enumerate(examples, 1):  # noqa: B007 (used after the loop)
            yield example
    if count == 0:
        why = "no line in it has a message and a response to it"
        why = no_response(reading.roles, ChatSettings().respond) if reading.roles else why
        raise InputError(f"{file} holds no example: {why}")


def _files(path: Path, split: Split | None) -> list[tuple[Path, Split | None]]:
    """Return the files to read, and the split that is to be picked out of each (None: all of it)."""
    if path.is_dir():
        return [(file, None) for file in _parts(path, split)]
    if not path.exists():
        raise InputError(f"{path} does not exist; name a data folder, or a .parquet, .jsonl or .csv file")
    refuse_endless(path)
    if not _is_table(path):
        if _kind(path) not in (".jsonl", ".ndjson", ".csv"):
            also = f"the last two also with {', '.join(COMPRESSIONS)}"
            raise InputError(f"{path}: examples are read from .parquet, .jsonl and .csv files ({also})")
        return [(path, split)]
    named = next((name for name in SPLITS if path.name.startswith(f"{name}-")), None)
    if split and named and named != split:
        raise InputError(f"{path} is the {named} part of a data folder; name the folder to read its {split} part")
    return [(path, None if named else split)]


def _kind(file: Path) -> str:
    return strip_compression(file).suffix.lower()


def _is_table(file: Path) -> bool:
    return file.suffix.lower() == ".parquet"


def _parts(folder: Path, split: Split | None) -> list[Path]:
    parts = {name: sorted(folder.glob(f"{name}-*.parquet")) for name in SPLITS}
    if wanted := parts[split] if split is not None else [file for name in SPLITS for file in parts[name]]:
        return wanted
    if there := ", ".join(name for name in SPLITS if parts[name]):
        raise InputError(f"{folder} has no {split} part, no {split}-*.parquet; it has {there}")
    names = sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") if names else "nothing"
    raise InputError(f"{folder} is no data folder: no train-*, valid-* or test-*.parquet; it holds {shown}")


def _table_examples(path: Path) -> Iterator[Example]:
    columns = (CANDIDATE_SCHEMA if "candidates" in _schema(path).names else BASE_SCHEMA).names
    for batch in _table_batches(path, columns):
        for row in batch.to_pylist():
            yield Example(**row | {name: tuple(row.get(name) or ()) for name in ("context", "candidates")})


def _table_batches(path: Path, columns: Sequence[str], groups: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
    """Read columns of all row groups or some; `id`, `thread` and `source` that are not there are empty."""
    schema = _schema(path)
    fields = [_field(name, schema, path) for name in columns]
    there = [name for name in columns if name in schema.names]
    with _damage_named(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        numbers = range(file.num_row_groups) if groups is None else groups
        row = sum(file.metadata.row_group(number).num_rows for number in range(min(numbers, default=0)))
        for batch in file.iter_batches(BATCH_ROWS, row_groups=numbers, columns=there, use_threads=False):
            yield _checked(batch, fields, path, row)
            row += batch.num_rows


def _schema(path: Path) -> pa.Schema:
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; build or copy it again")
    with _damage_named(path):
        return pq.read_schema(path)


def _field(name: str, schema: pa.Schema, path: Path) -> pa.Field:
    """Return the column as it is to be given."""
    wanted = CANDIDATE_SCHEMA.field(name)
    if name not in schema.names:
        if name in ("context", "response"):
            raise InputError(f"{path} has no column {name}; it has {', '.join(schema.names) or 'none'}")
    elif not _is_kind(schema.field(name).type, wanted.type):
        raise InputError(f"{path}: column {name} is {schema.field(name).type}; {wanted.type} is read")
    return wanted


def _is_kind(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column can be cast to the type that is wanted without a change of its values."""
    if pa.types.is_list(wanted):
        lists = pa.types.is_list(given) or pa.types.is_large_list(given)
        return lists and _is_kind(given.value_type, wanted.value_type)
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(given))
    if pa.types.is_dictionary(given):
        return _is_kind(given.value_type, wanted)
    return bool(pa.types.is_string(given) or pa.types.is_large_string(given))


def _checked(batch: pa.RecordBatch, fields: Sequence[pa.Field], path: Path, row: int) -> pa.RecordBatch:
    """Return the batch with the right types, all columns, and no null where a text must be."""
    batch.validate(full=True)
    if {"candidates", "label"} <= {each.name for each in fields} & {*batch.schema.names}:
        _check_labels(batch, path, row)
    arrays = []
    for name, kind in ((each.name, each.type) for each in fields):
        if name not in batch.schema.names:
            arrays.append(pa.array(["" if kind == _TEXT else None] * batch.num_rows, kind))
            continue
        array = batch.column(name)
        array = array if array.type == kind else array.cast(kind)
        if name in ("id", "thread", "source"):
            array = array.fill_null("")
        if name in ("context", "response") and array.null_count:
            raise InputError(f"{path}: row {row + array.is_null().to_pylist().index(True)} has no {name}")
        if name == "context" and array.flatten().null_count:
            raise InputError(f"{path}: a message of a context after row {row} is null; messages are texts")
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _check_labels(batch: pa.RecordBatch, path: Path, row: int) -> None:
    """Refuse a row with candidates whose label is none of them."""
    counts = pc.fill_null(pc.list_value_length(batch.column("candidates")), 0).to_numpy(zero_copy_only=False)
    labels = pc.fill_null(batch.column("label"), -1).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero((counts > 0) & ((labels < 0) | (labels >= counts)))
    if len(wrong):
        label, count = batch.column("label")[int(wrong[0])].as_py(), counts[wrong[0]]
        allowed = f"with {count} candidates it is 0 to {count - 1}"
        raise InputError(f"{path}: row {row + wrong[0]} has label {label}; {allowed}")


@contextlib.contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's; Arrow's own errors about bad bytes have no number
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path} is damaged or no Parquet ({reason}); build or copy it again") from None


@dataclass
class SplitCounts:
    """What became of the examples of one split; read = kept + dropped."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # by reason; `duplicate`: all its texts came before

    def add(self, read: int, copies: int) -> None:
        """Enter examples, of which some are copies."""
        self.read += read
        self.kept += read - copies
        if copies:
            self.dropped["duplicate"] = self.dropped.get("duplicate", 0) + copies


@dataclass
class Account(Counts):
    """What was read, kept and dropped; `dropped` is what the corpus' rules left out before anything was split."""

    source: str
    inputs: list[str]  # as they were given, such as `test=FILE`
    settings: dict[str, Any]  # of the corpus, every default written out
    history: int | None  # messages kept before the newest one of a context; None: all
    limit: int | None
    splits: dict[Split, SplitCounts] = field(default_factory=lambda: {split: SplitCounts() for split in SPLITS})

    def to_json(self) -> dict[str, Any]:
        """Return what data.json holds."""
        facts = asdict(self)
        order = ["source", "inputs", "settings", "history", "limit", *self.counts(), "splits"]
        return {"format": FORMAT, **{name: facts[name] for name in order}}

    def why_nothing_kept(self) -> str:
        """Explain in one line why a job gave no example."""
        where = ", ".join(self.inputs[:3]) or self.source
        if self.bad_lines:
            return f"{where}: no example, {self.bad_lines} of {self.lines} lines are bad, the first: {self.faults[0]}"
        why = "a dialogue needs a message and a response to it"
        if self.dropped:
            why = f"left out: {', '.join(f'{count:,} {reason}' for reason, count in self.dropped.items())}"
        if self.roles:
            why = no_response(self.roles, self.settings["respond"])
        return f"{where}: no example in {self.lines} lines; {why}"


def no_response(roles: Mapping[str, int], respond: str) -> str:
    """Say whose messages chats have where none answers another one."""
    found = ", ".join(f"{role} ({count:,})" for role, count in roles.items())
    return f"no message of {respond} answers another; there are those of {found}: `--set respond=ROLE` names others"


def limits_of_history(account: Mapping[str, Any]) -> str:
    """Return the options that cut contexts, with their values: "--history 10"."""
    history = account["history"]
    limits = [f"--history {'all' if history is None else history}"]
    if "depth" in account["settings"]:  # Reddit's: messages of a context, the newest included
        limits.append(f"--set depth={account['settings']['depth']}")
    return ", ".join(limits)


def kept_messages(account: Mapping[str, Any]) -> float:
    """Return how many messages a context has at most before its newest one; infinity where all are kept."""
    limits = [account["history"], account["settings"].get("depth", math.inf) - 1]
    return min(limit for limit in limits if limit is not None)
