"""Files with something wrong in them."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from rejoinder.corpora.example import Example
from rejoinder.errors import InputError

_PLACE = r"(:\d+: | is empty| has no labels| holds | is UTF-16|: \d+ responses)"
"""What follows the name of the file: mostly the line, else what is wrong with all of it."""


@st.composite
def mangled(draw, data: bytes, insertions: list[bytes]) -> bytes:
    """The data after up to three faults: bytes changed, cut out, doubled, cut off, or something put in."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 40)))
        kind = draw(st.sampled_from(["change", "cut", "double", "end", "insert"]))
        if kind == "change":
            data = data[:start] + draw(st.binary(min_size=1, max_size=3)) + data[start + 1 :]
        elif kind == "cut":
            data = data[:start] + data[end:]
        elif kind == "double":
            data = data[:end] + data[start:]
        elif kind == "end":
            data = data[:start]
        else:
            data = data[:start] + draw(st.sampled_from(insertions)) + data[start:]
    return data


def check_read(read, path) -> None:
    """Reading gives whole examples, or an error of one line that names the file and mostly the line."""
    try:
        examples = list(read(path))
    except InputError as error:
        text = str(error)
        assert "\n" not in text
        assert re.search(re.escape(str(path)) + _PLACE, text), text
        return
    for example in examples:
        assert isinstance(example, Example)
        assert example.context
        assert all(message.strip() for message in example.context)
        assert example.response.strip()
        assert example.thread
        assert example.id
        if example.candidates:
            assert example.candidates[example.label] == example.response
        else:
            assert example.label is None
