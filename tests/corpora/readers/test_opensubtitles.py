"""Subtitles: what is said in a line, which lines are pairs, which lines are a film."""

import gzip
import itertools
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.corpora.forms.examples import read_examples
from rejoinder.corpora.splits import split_of
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.pairs import opensubtitles
from rejoinder.corpora.readers.pairs.opensubtitles import clean_line, read_opensubtitles, shard_name
from rejoinder.errors import InputError
from tests.corpora.jobs import build

LINES = ["First of the lines.", "- JOHN: The second one.", "[door slams]", "", "Short.", "And here is the fourth."]


@pytest.fixture
def read(tmp_path):
    def run(*lines, name="film.txt", reading=None):
        path = tmp_path / name
        data = "".join(f"{line}\n" for line in lines).encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return list(read_opensubtitles(path, reading or Reading()))

    return run


@pytest.mark.parametrize(("line", "said"), [
    ("- JOHN: Hello.", "Hello."),
    ("Hello. MARY: Hi!", "Hello. Hi!"),
    ("- Hello.\r", "Hello."),
    ("— Привет. —", "Привет."),
    ("Well [sighs]  I (coughs) know", "Well I know"),
    ("c3po:", ""),
    ("[a (b] c", "c"),
    ("10:30 is late, and 9: is later", "10:30 is late, and 9: is later"),
    ("see http://x.org: fine", "see http://x.org: fine"),
    ("Not Mr. Smith: no", "Not Mr. no"),
    ("an open ( bracket", "an open ( bracket"),
    ("a ) b (c) d", "a ) b d"),
])  # fmt: skip
def test_what_is_said_in_a_line(line, said):
    assert clean_line(line) == said


@given(st.text(alphabet="aB:.-()[] 1\t", max_size=40))
def test_cleaning_leaves_no_edges_double_spaces_or_bracketed_text(line):
    said = clean_line(line)
    assert said == " ".join(said.split()).strip("- ")
    opened = min((said.find(sign) for sign in "([" if sign in said), default=len(said))
    assert not set(")]") & set(said[opened:])


@pytest.mark.parametrize("line", ["(" * 2**20, "[" * 2**19 + ")" * 2**19, "a:" * 2**19, ". a" * 2**19, "- " * 2**19])
def test_cleaning_a_line_of_a_megabyte_takes_no_time(line):
    """Were it quadratic, this would take days."""
    assert len(clean_line(line)) <= len(line)


def test_films_of_the_same_name_are_threads_with_ids_of_their_own(tmp_path):
    lines = [f"This is line {number}." for number in range(4)]
    for folder in ("fa", "fb"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.txt").write_text("\n".join([folder * 9, *lines]))
    (tmp_path / "2.txt").write_text("\n".join(lines[::-1]))
    build("opensubtitles", [tmp_path / "fa" / "1.txt", tmp_path / "fb" / "1.txt", tmp_path / "2.txt"], tmp_path / "data")
    examples = list(read_examples(tmp_path / "data"))
    assert {each.thread for each in examples} == {"fa/1.txt", "fb/1.txt", "2.txt"}
    assert len({each.id for each in examples}) == len(examples) == 11


def test_consecutive_lines_are_pairs_with_earlier_lines_of_any_length(read):
    reading = Reading()
    examples = read(*LINES, reading=reading)
    assert [(each.context, each.response) for each in examples] == [(("First of the lines.",), "The second one.")]
    assert reading.lines == 5
    assert reading.dropped == {"lines of nothing that is said": 1, "pairs with a line of fewer than 9 characters": 2}
    (*_, last) = read(*LINES, "- The fifth line.")
    assert last.context == ("First of the lines.", "The second one.", "Short.", "And here is the fourth.")
    assert (last.id, last.thread, last.source) == ("film.txt:7", "film.txt", "opensubtitles")


@pytest.mark.parametrize("history", [0, 1, 3, 10])
def test_history_is_limited(read, history):
    lines = [f"This is line {number}." for number in range(20)]
    reading = Reading(history=history)
    examples = read(*lines, reading=reading)
    assert len(examples) == 19
    assert examples[-1].context == tuple(lines[18 - history : 19])
    assert reading.cut_contexts == 18 - history
    with pytest.raises(InputError, match="give --history N"):
        read(*lines, reading=Reading(history=None))


def test_a_big_file_is_cut_into_threads_as_split_does_it(read, monkeypatch):
    monkeypatch.setattr(opensubtitles, "SHARD_LINES", 3)
    lines = [f"This is line {number}." for number in range(7)]
    examples = read(*lines, name="en.txt.gz")
    assert [example.id for example in examples] == ["lines-aaa:2", "lines-aaa:3", "lines-aab:5", "lines-aab:6"]
    assert [example.thread for example in examples] == ["lines-aaa"] * 2 + ["lines-aab"] * 2
    assert all(len(example.context) < 3 for example in examples)  # none goes over the end of a part
    assert {example.thread for example in read(*lines[:3], name="lines-abc.gz")} == {"lines-abc"}


def test_parts_are_split_as_data19_split_them():
    """Of its 4,415 parts 462 are test, 10.46 %; of the examples it published 10.49 % (33,240,156 of 316,891,717)."""
    names = [shard_name(number) for number in range(4_415)]
    assert names == ["lines-" + "".join(each) for each in itertools.product(string.ascii_lowercase, repeat=3)][:4_415]
    assert sum(split_of(name) == "test" for name in names) == 462
    assert split_of("lines-emk") == "test"  # the part of the test example that its README shows
    assert shard_name(26**3) == "lines-baaa"


def test_lines_around_a_skipped_one_are_no_pair(tmp_path):
    path = tmp_path / "film.txt"
    path.write_bytes(b"This is a line.\n\xff\nThis is another.\nAnd one more.\n")
    with pytest.raises(InputError, match=r"film.txt:2: not UTF-8"):
        list(read_opensubtitles(path, Reading()))
    (example,) = read_opensubtitles(path, Reading(skip_bad=True))
    assert example.context == ("This is another.",)


@pytest.mark.parametrize("first", ["1", "\ufeff1\r", " 12 "])
def test_subrip_is_refused_with_what_to_read_instead(read, first):
    with pytest.raises(InputError, match=r"film.srt is SubRip .*remove the lines of numbers and times.*mono/en.txt.gz"):
        read(first, "00:00:01,000 --> 00:00:02,000", "This is a line.", name="film.srt")


def test_a_number_or_an_arrow_that_is_said_is_read(read):
    assert len(read("1", "This is a line.", "That is --> a line.")) == 1


def test_xml_is_refused_with_what_to_read_instead(read):
    with pytest.raises(InputError, match=r"film.txt is XML; .*mono/en.txt.gz"):
        read('<?xml version="1.0"?>', "<document>")
