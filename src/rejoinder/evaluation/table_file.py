"""What a table of systems and data sets is made of, as frozen dataclasses that a TOML file is read into.

`rejoinder table` reads such a file; recipes/tables/main.toml is one. Every field has its documentation under it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from rejoinder.errors import InputError

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

Key: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
"""Small letters, digits, hyphens and underscores: names a row or column in `--set`, and in the names of folders."""

Name: TypeAlias = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SystemRow:
    """[row.KEY]: a system. In `ranker` and `make`, {column} is the key of a column and {data} its path."""

    name: Name
    """What the table calls it."""
    ranker: Annotated[str, Field(min_length=1)] | dict[str, str]
    """As for `rejoinder evaluate`: a baseline's name or a model folder; or one for each column, by the column's key.
    Columns that are not named then have no such system."""
    make: str = ""
    """The command that makes the ranker; stands in the table's notes where it is missing."""
    skip: tuple[str, ...] = ()
    """Keys of columns for which there is no such system: fine-tuning on the set of the first training, say."""
    group: str = ""
    """Systems of one group have one colour in the chart."""

    def ranker_for(self, column: str, data: str) -> str | None:
        """What ranks the column of this key and path; None if the column has no such system."""
        chosen = self.ranker if isinstance(self.ranker, str) else self.ranker.get(column)
        return None if chosen is None or column in self.skip else filled(chosen, column, data)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class DataColumn:
    """[column.KEY]: a data set, and how it is ranked."""

    name: Name
    """What the table calls it."""
    path: Name
    """Folder or file of examples."""
    make: str = ""
    """The command that makes the data; stands in the table's notes where it is missing."""
    split: Literal["train", "valid", "test", "all"] | None = None
    """The part that is ranked; of a folder test, of a file all, if not given."""
    candidates: Annotated[int, Field(ge=2)] | Literal["given", "all"] | None = None
    """N: 1-of-N, also where the data has lists; given: the data's lists; all: every different response of all parts.
    100 if neither this nor `draw` is given."""
    draw: Annotated[int, Field(ge=1)] | None = None
    """In place of `candidates`: so many candidates are drawn for each example from the responses of other threads."""
    distinct: Literal["none", "inputs", "responses", "both"] = "none"
    """Of examples with the same newest message, or the same response, or of either kind, the first one is kept."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """At most so many examples are ranked, drawn at random."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of `draw`, `limit`, the groups, the training examples and the intervals."""
    train: str = ""
    """Data whose training part fits the rankers that learn from examples (TF-IDF, say); `path` if empty."""
    train_examples: Annotated[int, Field(ge=1)] = 10_000
    """So many examples of it, drawn at random (DATA19)."""

    def __post_init__(self) -> None:
        if self.candidates is not None and self.draw is not None:
            raise ValueError("candidates and draw are both given; give one of them")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class TableFile:
    """The whole file."""

    name: Name
    """What the table is called."""
    description: str = ""
    """Markdown that stands above the table."""
    row: Annotated[dict[Key, SystemRow], Field(min_length=1)]
    """The systems, in the table's order."""
    column: Annotated[dict[Key, DataColumn], Field(min_length=1)]
    """The data sets, in the table's order."""

    def __post_init__(self) -> None:
        for key, row in self.row.items():
            named = [*row.skip, *(row.ranker if isinstance(row.ranker, dict) else ())]
            wrong = [column for column in named if column not in self.column]
            if wrong:
                raise ValueError(f"row.{key} names the column '{wrong[0]}'; the columns are {', '.join(self.column)}")

    def chosen(self, rows: Sequence[str], columns: Sequence[str]) -> Plan:
        """The rows and columns of these keys, in the file's order; all of them where no key is given.

        Raises:
            InputError: there is no row or column of that key.
        """
        for kind, keys, known in (("row", rows, [*self.row]), ("column", columns, [*self.column])):
            for key in keys:
                if key not in known:
                    raise InputError(f"the table has no {kind} '{key}'; it has {', '.join(known)}")
        return Plan(
            self.name,
            self.description,
            {key: row for key, row in self.row.items() if not rows or key in rows},
            {key: column for key, column in self.column.items() if not columns or key in columns},
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What of a table is to be measured; the fields are those of `TableFile`."""

    name: str
    description: str
    rows: Mapping[str, SystemRow]
    columns: Mapping[str, DataColumn]


def filled(text: str, column: str, data: str) -> str:
    """The text with {column} and {data} replaced."""
    return text.replace("{column}", column).replace("{data}", data)
