"""What a user says of a file of replies or messages: its form, encoding, delimiter and columns."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from rejoinder.errors import InputError

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


@dataclass(frozen=True, slots=True)
class Choice:
    """The settings `columns` and `format`: FORM[,encoding=...][,delimiter=...][,header=no]."""

    form: str = ""
    encoding: str = ""
    delimiter: str = ""
    header: bool = True
    inactive: bool = False  # whether entries that are switched off, or not approved, are read
    columns: Mapping[str, str] = field(default_factory=dict)  # names by role
    is_settable: bool = True  # whether the user can make choices, so that errors name them

    def advice(self, settable: str, otherwise: str = "") -> str:
        """Return the end of an error: one that names settings, or one for where there are none."""
        return settable if self.is_settable else otherwise

    def untaken(self, takes: Set[str]) -> str:
        """Return which choice a form that `takes` some of them has no use for, or nothing."""
        made = {
            "columns": ("columns", bool(self.columns)),
            "delimiter": ("a delimiter", bool(self.delimiter)),
            "header": ("header=no", not self.header),
        }
        return next(
            (text for name, (text, is_made) in made.items() if is_made and name not in takes), ""
        )


def parse_choice(text: str, columns: str = "", inactive: str = "") -> Choice:
    """Return the choices of the settings `format`, `columns` and `inactive`."""
    if inactive not in ("", "keep", "drop"):
        raise InputError(f"inactive={inactive}: it is keep or drop")
    form, *options = text.split(",") if text else [""]
    words = {name: delimiter for delimiter, name in DELIMITERS.items()}
    values: dict[str, str] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if key not in ("encoding", "delimiter", "header") or not equals:
            raise InputError(
                f"format={text}: {option!r} is none of encoding=NAME, header=no and "
                f"delimiter=NAME ({', '.join(words)})"
            )
        values[key] = value
    delimiter = values.get("delimiter", "")
    if delimiter not in ("", *words, *DELIMITERS):
        raise InputError(f"format={text}: the delimiter is one of {', '.join(words)}")
    if values.get("header", "yes") not in ("yes", "no"):
        raise InputError(f"format={text}: header is yes or no")
    pairs = [pair.partition("=") for pair in columns.split(",") if pair]
    if wrong := [role for role, equals, name in pairs if not (role and equals and name)]:
        raise InputError(
            f"columns={columns}: write {wrong[0]!r} as ROLE=NAME, such as text=Antwort"
        )
    return Choice(
        form=form,
        encoding=values.get("encoding", ""),
        delimiter=words.get(delimiter, delimiter),
        header=values.get("header", "yes") == "yes",
        inactive=inactive == "keep",
        columns={role.strip(): name.strip() for role, _, name in pairs},
    )
