"""Python's literals as data: what `ast.literal_eval` says, without what it can be made to do."""

from __future__ import annotations

import ast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rejoinder.corpora.literals import MAX_DEPTH, parse_literal

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LEAF = TEXT | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none()
VALUE = st.recursive(LEAF, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4))


@given(VALUE)
def test_what_repr_writes_is_read_back(value):
    assert parse_literal(repr(value)) == value


@given(VALUE)
def test_and_with_everything_escaped(value):
    assert parse_literal(ascii(value)) == value


@given(st.text(alphabet="{}[]:,'\"\\ux10. -uUTrueNonL", max_size=14) | VALUE.map(repr).map(lambda text: text[:-1]))
@example("['a' 'b']")
@example("['\\ud800']")
@example("-1")
@example("0x1")
@example("1_000")
@example("[1,]")
def test_what_is_read_is_what_python_reads(text):
    try:
        value = parse_literal(text)
    except ValueError:
        return
    try:
        expected = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        assert "L" in text  # Python 2's longs
        return
    assert value == expected


def test_python_2():
    assert parse_literal("{u'a': u'\\u2019', 'b': 5L, \"c\": u\"it's\"}") == {"a": "\u2019", "b": 5, "c": "it's"}
    assert parse_literal("u'\\ud83d\\ude00'") == "\U0001f600"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the end instead of a value"),
        ("__import__('os').system('true')", "__import__"),
        ("open('x')", "open"),
        ("{'a': 1 + 1}", r"\+ 1"),
        ("{'a': b'x'}", "b'x'"),
        ("{1: 2}", "1 instead of a key, at position 1"),
        ("{'a' 1}", "1 instead of a colon"),
        ("{'a': 1", "the end instead of a comma or }"),
        ("[1 2]", "2 instead of a comma or ]"),
        ("[,]", ", instead of a value"),
        ("{'a': 1} x", "x"),
        ("{} {}", "{ after the end of the value"),
        ("'a", "'a"),
        ("'\\q'", r"\\q is not an escape"),
        ("'\\N{BULLET}'", r"\\N is not an escape"),
        ("'\\xg0'", r"\\x is not an escape"),
        ("'\\ud800'", "surrogate|truncated|decode"),
        ("'\\U00110000'", "chr"),
    ],
)
def test_anything_else_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_literal(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 2**20,
        "{'a':" * 2**18,
        "-" * 2**20,
        "1+" * 2**19,
        "'" + "\\" * 2**20,
        "'" * (2**20 + 1),
        "9" * 2**20,
        "a." * 2**19,
        " " * 2**20,
        "'" + "\\x4" * 2**18 + "'",
        "[1" * 2**18,
    ],
)
def test_a_megabyte_of_anything_is_refused_at_once(text):
    with pytest.raises(ValueError, match=r"."):
        parse_literal(text)


def test_depth():
    assert parse_literal("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(ValueError, match=f"more than {MAX_DEPTH} lists"):
        parse_literal("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
