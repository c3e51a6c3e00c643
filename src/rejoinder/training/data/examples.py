"""Examples of a data folder's splits, as training reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa

from rejoinder.corpora.forms.examples import read_columns
from rejoinder.digests import file_digest
from rejoinder.errors import InputError

Split: TypeAlias = Literal["train", "valid"]

COLUMNS = ("context", "response")


def read_texts(data: str | Path, split: Split) -> Iterator[list[list[str]]]:
    """Yield newest messages and responses, some thousands at a time."""
    for batch in read_columns(data, split, COLUMNS):
        yield newest_and_response(batch.column("context").to_pylist(), batch)


def newest_and_response(
    contexts: Sequence[Sequence[str]], batch: pa.RecordBatch
) -> list[list[str]]:
    """Return the newest messages and the responses of a batch, whose contexts are given."""
    # lists, since `to_numpy` of their offsets imports pandas where it is installed: a second
    if not all(contexts):
        raise InputError(
            "an example has an empty context; every example needs at least one message"
        )
    return [[context[-1] for context in contexts], batch.column("response").to_pylist()]


def data_digest(data: Path, splits: Sequence[Split]) -> str:
    """Return the SHA-256 of a file, or of names and contents of the files of a folder's splits."""
    if data.is_file():
        return file_digest(data)
    files = sorted(file for split in splits for file in data.glob(f"{split}-*.parquet"))
    listed = "".join(f"{file.name} {file_digest(file)}\n" for file in files)
    return hashlib.sha256(listed.encode()).hexdigest()
