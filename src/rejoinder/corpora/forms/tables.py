"""Tables by the kinds of their files: delimited text, workbooks, Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.delimited import open_delimited
from rejoinder.corpora.forms.source import Sample, Source
from rejoinder.corpora.forms.table import Table, explained, json_cell
from rejoinder.corpora.forms.unpacked import limited_batches
from rejoinder.corpora.forms.workbooks import open_workbook
from rejoinder.corpora.limits import check_columns
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError


def open_table(
    sample: Sample, choice: Choice, known: Set[str], reading: Reading | None = None
) -> Table:
    """Open delimited text, a workbook or Parquet; `known` are folded names of usual columns."""
    if sample.kind not in ("workbook", "parquet"):
        return open_delimited(sample, choice, known, reading)
    if choice.delimiter or choice.encoding:
        raise InputError(f"{sample.source} is not text; leave the delimiter and the encoding out")
    if sample.kind == "workbook":
        return open_workbook(sample, choice, known, reading)
    if not choice.header:
        raise InputError(f"{sample.source} names its columns; leave header=no out")
    return _open_parquet(sample.source)


def _open_parquet(source: Source) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    broken = (pa.ArrowException, OSError, UnicodeDecodeError)
    with explained(source, "Parquet", broken):
        file = pq.ParquetFile(source.path)
        names = list(file.schema_arrow.names)
        check_columns(len(names), str(source))

    def rows() -> Iterator[tuple[str, dict[str, Any]]]:
        number = 0
        batches = limited_batches(file, source.path)
        while True:
            with explained(source, "Parquet", broken):
                batch = next(batches, None)
                records = [] if batch is None else batch.to_pylist()
            if batch is None:
                return
            for row in records:
                number += 1
                values = {name: json_cell(value) for name, value in row.items()}
                yield f"{source}: row {number}", values

    return Table("Parquet", names, rows())
