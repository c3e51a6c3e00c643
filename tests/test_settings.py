"""Settings: TOML written and read, values from the command line, errors that say what is allowed."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import Any

import pytest

from rejoinder.errors import InputError
from rejoinder.settings import (
    find_recipe,
    override,
    parse_setting,
    read_toml,
    recipes,
    section,
    toml_value,
    validate,
)


@section
class Inner:
    size: int = 1


@section
class Outer:
    entries: dict[str, Inner]
    several: tuple[Inner, ...] = ()


@dataclass(frozen=True)
class Plain:
    share: float = 0.5


@pytest.mark.parametrize(
    "value", [1, 1e-6, True, '\x7f\t\\"', "Grüße", [1.5, 2.0], ["a", "b c"], []]
)
def test_a_value_is_written_as_toml_on_one_line(value):
    assert tomllib.loads(f"value = {toml_value(value)}") == {"value": value}


@pytest.mark.parametrize(
    ("target", "table", "said"),
    [
        (Plain, {"shar": 1.0}, "file: unknown key 'shar'; did you mean 'share'? allowed: share"),
        (Plain, {"share": "x"}, "file: share = 'x' is not allowed: it should be a valid number"),
        (
            Outer,
            {"entries": {"a": {"sise": 3}}},
            "unknown key 'entries.a.sise'; did you mean 'size'?",
        ),
        (Outer, {"entries": {"a": 3}}, "entries.a = 3 is not allowed: it should be a table"),
        (
            Outer,
            {"entries": {}, "several": [{}, {"x": 1}]},
            "unknown key 'several.1.x'; allowed: size",
        ),
        (Outer, {}, "'entries' is missing"),
    ],
)
def test_what_does_not_fit_is_named(target, table, said):
    with pytest.raises(InputError, match=re.escape(said)):
        validate(target, table, "file")


def test_a_setting_is_toml_or_a_bare_word():
    assert parse_setting(" a.b = [1, 2] ") == ("a.b", [1, 2])
    assert parse_setting("agent=Bike Shop") == ("agent", "Bike Shop")
    assert parse_setting("agent=Bea O'Neill & Sons,Dr. Ada") == ("agent", "Bea O'Neill & Sons,Dr. Ada")
    assert parse_setting("a=b/c") == ("a", "b/c")
    document: dict[str, Any] = {"list": [{"kind": "x"}]}
    override(document, "list.0.kind.size=3", shorthands=("kind",))
    override(document, "new.table.key=true")
    assert document == {
        "list": [{"kind": {"kind": "x", "size": 3}}],
        "new": {"table": {"key": True}},
    }


def test_a_file_that_is_no_toml_is_refused_in_one_line(tmp_path):
    for content in (b"name = ", b"\xff\xfe\x00", b"= 3"):
        (tmp_path / "a.toml").write_bytes(content)
        with pytest.raises(InputError, match="not a TOML file"):
            read_toml(tmp_path / "a.toml", "give one")
    for missing in (tmp_path, tmp_path / "b.toml"):
        with pytest.raises(InputError, match="give one"):
            read_toml(missing, "give one")


def test_a_bundled_recipe_in_a_folder_is_found_on_windows():
    """Paths have backslashes there, and the command passes paths."""
    assert str(PureWindowsPath("poly/bi-small")) == "poly\\bi-small"
    assert find_recipe(PureWindowsPath("poly/bi-small")) == recipes()["poly/bi-small"]
