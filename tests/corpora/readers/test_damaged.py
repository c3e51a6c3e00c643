"""Files with something wrong in them: every reader gives whole examples, or an error of one line that says where."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Example
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.dialogues.convai2 import Convai2Settings
from rejoinder.corpora.registry.sources import CORPORA
from rejoinder.errors import InputError
from tests.corpora.readers import test_amazon_qa as amazon
from tests.corpora.readers import test_convai2 as convai2
from tests.corpora.readers import test_opensubtitles as opensubtitles
from tests.corpora.readers import test_semeval as semeval
from tests.corpora.readers import test_ubuntu as ubuntu
from tests.corpora.readers import test_wikipedia as wikipedia
from tests.corpora.readers.test_dstc7 import dialogue

_PLACE = r"(:\d+: |: not JSON, or cut off, after \d+ objects| is empty| has no labels| is UTF-16|: \d+ responses)"
"""What follows the name of the file: mostly the line, else what is wrong with all of it."""
_DIALOGUES = [dialogue(part, candidates=3, right=("C1",)) for part in ("train", "dev")]
_EXPORT = wikipedia.HEAD + wikipedia.page() + wikipedia.page(8) + "</mediawiki>"
_XML = [b"<", b">", b"&", b"&x;", b"<!-- ", b"<![CDATA[", b"\xff", b"<a>" * 20, b"<Thread>", b"</Thread>", b"<page>"]
KINDS = {
    "amazon-qa": ([f"{amazon.SINGLE}\n", f"{amazon.MULTIPLE}\n"], [b"'", b"{", b"]", b"\\", b"\xff", b"["], [None]),
    "convai2": ([convai2.BOTH + convai2.CANDIDATES + convai2.OTHER_SIDE, convai2.dialogues(4)],
                [b"\t", b"\n", b"|", b"\\n", b"\0", b"\xff", b"1 ", b"your persona: "],
                [None, Convai2Settings(draw=2)]),
    "dstc7": ([json.dumps(_DIALOGUES, indent=1)],
              [*map(str.encode, '"{}[],\\'), b"\xff", b"null", b"[" * 3000, b"1e999", b'"\\ud800"'], [None]),
    "opensubtitles": (["\n".join(opensubtitles.LINES)], [b"\n", b"\r", b"\0", b"\xff", b"(", b"a: ", b"- "], [None]),
    "semeval": ([semeval.OLD, semeval.NEW], _XML, [None]),
    "ubuntu": ([ubuntu.text_of(ubuntu.TRAIN), ubuntu.text_of(ubuntu.WIDE)],
               [b'"', b",", b"\n", b"\r", b"\0", b"\xff", b"__eot__"], [None]),
    "wikipedia": ([_EXPORT], _XML, [None]),
}  # fmt: skip


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


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_give_examples_or_say_where(tmp_path, name, data):
    wholes, insertions, chosen = KINDS[name]
    path = tmp_path / "data"
    path.write_bytes(data.draw(mangled(data.draw(st.sampled_from(wholes)).encode(), insertions)))
    corpus, options = CORPORA[name], data.draw(st.sampled_from(chosen))
    for skip in (False, True):
        reading = Reading(skip_bad=skip, part="train" if name == "semeval" else None)
        try:
            examples = list(corpus.read(path, reading, options or corpus.settings()))
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
            assert re.match(re.escape(str(path)) + _PLACE, str(error)), error  # noqa: PT017
            continue
        for example in examples:
            check(example)


def check(example: Example) -> None:
    assert all([example.context, example.thread, example.id])
    assert all(message.strip() for message in (*example.context, example.response))
    if example.candidates:
        assert example.candidates[example.label] == example.response
    else:
        assert example.label is None
