"""A table's plan: its systems and its data sets (recipes/tables/main.toml)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from rejoinder.evaluation.tasks import FIT_EXAMPLES, Copies, ranked_part
from rejoinder.settings import Count, Natural, override, read_toml, section, validate

if TYPE_CHECKING:
    from rejoinder.corpora.splits import Split

# Names a row or column in `--set`, and in the names of folders.
Percent: TypeAlias = Annotated[float, Field(ge=0, le=100)]
Key: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
Name: TypeAlias = Annotated[str, Field(min_length=1)]


@section
class SystemRow:
    """[row.KEY]: a system.

    In `ranker` and `make`, {column} is the key of a column and {data} its path.
    """

    name: Name
    ranker: (
        Name | dict[str, str]
    )  # as for `rejoinder evaluate`, or one per column, by the column's key
    make: str = ""  # the command that makes the ranker, for the table's notes
    settings: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Further settings of that command, as `--set` takes them, by the key of a column."""
    skip: tuple[str, ...] = ()  # keys of columns without this system
    group: str = ""  # systems of one group have one colour in the chart
    left_on: str = ""
    """Key of the column on whose data the models of the other columns are also ranked (ACL19, Table
    3)."""

    published: dict[str, Percent] = Field(default_factory=dict)
    """Recall at 1 that a paper gives for the system, by the key of a column."""
    published_left: dict[str, Percent] = Field(default_factory=dict)
    """And on the data of `left_on`, by the column whose data the model was trained on."""

    def ranker_for(self, column: str, data: str) -> str | None:
        """Return the ranker of a column; None if the column lacks this system."""
        chosen = self.ranker if isinstance(self.ranker, str) else self.ranker.get(column)
        return None if chosen is None or column in self.skip else _filled(chosen, column, data)

    def command_for(self, column: str, data: str) -> str:
        """Return the command that makes the ranker of a column; empty if the plan has none."""
        options = (f" --set {shlex.quote(setting)}" for setting in self.settings.get(column, ()))
        return _filled(self.make, column, data) + "".join(options)


@section
class DataColumn:
    """[column.KEY]: a data set, and how it is ranked."""

    name: Name
    path: Name  # folder or file of examples
    make: str = ""  # the command that makes the data, for the table's notes
    split: Literal["train", "valid", "test", "all"] | None = None
    """Default: test for a folder, all for a file."""
    candidates: Annotated[int, Field(ge=2)] | Literal["given", "all"] | None = None
    """N: 1-of-N, even if the data has lists; given: the data's lists; all: every different response
    of all parts. Default without `draw`: 100."""
    draw: Count | None = None
    """Instead of `candidates`: number drawn for each example from other threads' responses."""
    distinct: Literal["none", "inputs", "responses", "both"] = "none"
    """Keep only the first of the examples with the same newest message, the same response, or
    either."""
    copies: Copies = "wrong"
    """Count of a candidate with the right one's text; wrong: as in the papers."""
    limit: Count | None = None  # maximum of ranked examples, drawn at random
    seed: Natural = 0  # seed of `draw`, `limit`, groups, training examples and intervals
    train: str = ""
    """Data whose training part fits learning rankers, such as TF-IDF; `path` if empty."""
    train_examples: Count = FIT_EXAMPLES  # maximum of its examples, drawn at random (DATA19)

    def __post_init__(self) -> None:
        if self.candidates is not None and self.draw is not None:
            raise ValueError("candidates and draw are both set; set one of them")

    @property
    def part(self) -> Split | None:
        """The ranked part; None: all."""
        return None if self.split == "all" else ranked_part(Path(self.path), self.split)

    @property
    def training_path(self) -> Path:
        """Data whose training part fits rankers."""
        return Path(self.train or self.path)


@section
class TablePlan:
    """The whole file."""

    name: Name
    description: str = ""  # Markdown that stands above the table
    row: Annotated[dict[Key, SystemRow], Field(min_length=1)]  # the systems, in the table's order
    column: Annotated[dict[Key, DataColumn], Field(min_length=1)]
    """The data sets, in the table's order."""

    def __post_init__(self) -> None:
        """Refuse names that stand twice, and settings without a command."""
        for group in (self.row, self.column):
            names = [entry.name for entry in group.values()]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(
                    f"two rows or columns are called {twice!r}; give each its own name"
                )
        for key, row in self.row.items():
            if row.settings and not row.make:
                raise ValueError(
                    f"row.{key} has settings, but no command that they belong to; give make"
                )
            own = row.ranker if isinstance(row.ranker, dict) else ()
            named = [*row.skip, *row.settings, *own, *filter(None, [row.left_on])]
            named += [*row.published, *row.published_left]
            if wrong := [column for column in named if column not in self.column]:
                raise ValueError(
                    f"row.{key} names the column '{wrong[0]}';"
                    f" the columns are {', '.join(self.column)}"
                )


def _filled(text: str, column: str, data: str) -> str:
    return text.replace("{column}", column).replace("{data}", data)


def load_table(path: Path, overrides: Sequence[str] = ()) -> TablePlan:
    """Read the TOML file of a table; the overrides win over it."""
    document = read_toml(
        path,
        "no such file; give a TOML file of a table, or a name of `rejoinder list recipes`",
    )
    for setting in overrides:
        override(document, setting)
    return validate(TablePlan, document, str(path))
