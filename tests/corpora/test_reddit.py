"""Reddit's comments: lines to records, records to examples."""

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.pipeline.build import build_data
from rejoinder.corpora.pipeline.chunks import ChunkSizes
from rejoinder.corpora.splits import split_of
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.corpora.lines import BadLineError, Reading
from rejoinder.corpora.reddit.comment_trees import LOST, judge, trim
from rejoinder.corpora.reddit.corpus import CORPUS
from rejoinder.corpora.reddit.settings import RedditSettings
from rejoinder.engine import LocalEngine
from rejoinder.errors import InputError

from .reddit_lines import blocks, comment, dump, run


def body(name):
    return f"this is comment {name}"


def contexts(examples):
    return {example.id: example.context for example in examples}


def test_both_the_response_and_what_it_answers_pass_the_filter_and_ancestors_need_not():
    long = "so many words " * 20
    thread = [comment("a", body="short"), comment("b", "a"), comment("c", "b"), comment("d", "c", long),
              comment("e", "d"), comment("f", "e"), comment("g", "f", "[deleted]"), comment("h", "g")]  # fmt: skip
    reading = Reading()
    found = contexts(run(thread, reading=reading))
    cut = "so many words " * 9
    assert found == {"c": ("short", body("b")), "f": ("short", body("b"), body("c"), cut, body("e"))}
    assert reading.dropped == {
        "too short": 1, "too long": 1, "deleted or removed": 1, "answers a comment that is too short": 1,
        "answers a comment that is too long": 1, "answers a comment that is deleted or removed": 1,
    }  # fmt: skip


def test_history_bounds_it_too():
    chain = [comment(f"c{number}", f"c{number - 1}" if number else "") for number in range(15)]
    assert len(contexts(run(chain, reading=Reading(history=2)))["c14"]) == 3
    assert len(contexts(run(chain, reading=Reading(history=0)))["c14"]) == 1
    for history, depth, cut in ((2, 10, 11), (None, 10, 4), (None, 14, 0)):
        reading = Reading(history=history)
        contexts(run(chain, RedditSettings(depth=depth), reading=reading))
        assert reading.cut_contexts == cut


def test_blank_ancestors_are_left_out_and_counted():
    reading = Reading()
    thread = [comment("a"), comment("b", "a", " \n"), comment("c", "b", "x" * 200), comment("d", "c"),
              comment("e", "d")]  # fmt: skip
    assert contexts(run(thread, reading=reading)) == {"e": (body("a"), body("d"))}
    assert reading.blank_messages == 2  # white space, and the word of 200 letters of which a cut leaves nothing


@pytest.mark.parametrize("length", [1, 2, 3, 40])
def test_circles_end_and_give_nothing(length):
    circle = [comment(f"c{number}", f"c{(number + 1) % length}") for number in range(length)]
    below = [comment("x", "c0"), comment("y", "x")]
    reading = Reading()
    assert run([*below, *circle], reading=reading) == []
    assert reading.dropped == {"in a circle of comments": length + 2}


def test_a_thread_20_000_comments_deep():
    names = [f"c{number}" for number in range(20_000)]
    lines = [f'{{"id":"{name}","link_id":"t3_t","parent_id":"t1_{above}","body":"this is comment {name}"}}\n'
             for above, name in zip(["none", *names], names, strict=False)]  # fmt: skip
    for order in (lines, lines[::-1]):
        examples = run("".join(order).encode())
        assert len(examples) == len(names) - 1
        assert len(contexts(examples)["c19999"]) == 10


def test_subreddits():
    lines = [comment("a"), comment("b", "a"), comment("c", thread="u", subreddit="AskReddit"),
             comment("d", "c", thread="u", subreddit="AskReddit"),
             comment("e", thread="v", subreddit=None)]  # fmt: skip
    reading = Reading()
    assert [example.id for example in run(lines, RedditSettings(subreddits=("askreddit",)), reading)] == ["d"]
    assert reading.dropped == {"in another subreddit": 3, "answers the submission": 1}
    assert len(run(lines, RedditSettings(subreddits=("AskReddit", "pics")))) == 2


def test_null_where_dumps_have_it():
    lines = [comment("a", parent_id=None, author=None), comment("b", "a", None), comment("c", "a")]
    assert contexts(run(lines)) == {"c": (body("a"),)}


BAD = {
    "not JSON": b"{",
    "a submission": dump([{"id": "a", "title": "What do you think?"}]),
    "two on a line": dump([comment("a")]).strip() + dump([comment("b")]).strip(),
    "a number for an id": dump([comment("a") | {"id": 7}]),
    "no id": b'{"body":"x","link_id":"t3_t"}',
    "no body": b'{"id":"a","link_id":"t3_t","parent_id":"t3_t"}',
    "a link without t3_": dump([comment("a") | {"link_id": "t"}]),
    "an empty id": dump([comment("")]),
    "a parent of another kind": dump([comment("a") | {"parent_id": "t5_a"}]),
    "half a surrogate pair": b'{"id":"a","link_id":"t3_t","parent_id":"t3_t","body":"\\ud83d"}',
    "not UTF-8": b'{"id":"a","link_id":"t3_t","parent_id":"t3_t","body":"\xff"}',
    "nested too deep": b'{"id":"a","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
def test_a_bad_line_is_named_or_skipped(line):
    data = dump([comment("a")]) + b"\n" + line.strip() + b"\n" + dump([comment("b", "a")])
    with pytest.raises(BadLineError, match=r"RC_2018-01.zst:3: .*of Reddit \(.*\) is read, one a line"):
        run(data)
    reading = Reading(skip_bad=True)
    assert len(run(data, reading=reading, cuts=[2])) == 1
    assert (reading.lines, reading.bad_lines) == (3, 1)


def test_line_ends_and_a_byte_order_mark():
    data = b"\xef\xbb\xbf" + dump([comment("a"), comment("b", "a")]).replace(b"\n", b"\r\n")
    assert len(run(data)) == 1
    assert len(run(data[:-2])) == 1


def test_a_zero_character_in_a_body_is_text():
    text = "zero \0 and\0another one"
    (example,) = run([comment("a", body=text), comment("b", "a", text)])
    assert (example.context, example.response) == ((text,), text)


# Threads with circles, missing parents, copies and texts of every kind, out of few names.
NAMES = st.sampled_from("abcdefgh")
TEXTS = ["", "[deleted]", "[removed]", " " * 12, "too few", "1 2 3 4 5 6 7 8 9", "w" * 130, "long words " * 15, None]
BODIES = st.sampled_from(TEXTS) | NAMES.map(body)
COMMENTS = st.builds(comment, NAMES, st.just("") | NAMES, BODIES, st.sampled_from("tu"),
                     subreddit=st.sampled_from(["pics", "AskReddit"]))  # fmt: skip
DUMPS = st.lists(COMMENTS, max_size=25)
SETTINGS = st.builds(
    RedditSettings, unit=st.sampled_from(["characters", "words"]), depth=st.integers(1, 5), cut=st.integers(1, 140),
    subreddits=st.sampled_from([(), ("pics",)]),
)  # fmt: skip


def found(lines, chosen, **how):
    reading = Reading(skip_bad=True)
    examples = run(lines, chosen, reading, **how)
    assert len({(example.thread, example.id) for example in examples}) == len(examples)
    return set(examples), reading.lines, reading.bad_lines, reading.dropped, reading.blank_messages


@given(st.data(), DUMPS, SETTINGS)
def test_neither_the_order_of_lines_nor_blocks_and_partitions_matter(data, lines, chosen):
    expected = found(lines, chosen)
    mixed = data.draw(st.permutations(lines))
    cuts = data.draw(st.lists(st.integers(0, len(lines)), max_size=4))
    assert found(mixed, chosen, cuts=cuts, partitions=data.draw(st.integers(1, 5))) == expected


@given(st.data(), DUMPS, st.lists(st.binary(max_size=30) | st.sampled_from(list(BAD.values())), max_size=4))
@settings(max_examples=60)
def test_damaged_lines_harm_nothing_else(data, lines, damage):
    whole = dump(lines).splitlines(keepends=True)
    for piece in damage:
        whole.insert(data.draw(st.integers(0, len(whole))), piece.replace(b"\n", b"") + b"\n")
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=4))
    examples, read, bad, _, _ = found(b"".join(whole), RedditSettings(), cuts=cuts)
    assert examples == found(lines, RedditSettings())[0]
    assert read == len(lines) + bad


@given(st.data())
@settings(max_examples=200)
def test_any_line_is_read_or_refused(data):
    """A comment with some bytes changed: a record, or a bad line; never another error."""
    line = bytearray(dump([data.draw(COMMENTS)]).strip())
    for _ in range(data.draw(st.integers(1, 6))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.sampled_from(b'\0"\\{}[]:,tnu0 \xff\xc3\n'))
    reading = Reading(skip_bad=True)
    (block,) = blocks(bytes(line).replace(b"\n", b" "))
    records = CORPUS.scatter(block, reading, RedditSettings())
    assert records.num_rows + reading.bad_lines == reading.lines <= 1
    list(CORPUS.assemble(records, reading, RedditSettings()))


@pytest.mark.parametrize("processes", [1, 2])
def test_a_whole_job(tmp_path, processes):
    threads = [comment(f"c{place}", f"c{place - 1}" if place % 7 else "", f"{number} {body(place)}", f"t{number}")
               for place in range(30) for number in range(20)]  # fmt: skip
    months = [tmp_path / f"RC_2018-0{month}.zst" for month in (1, 2)]
    for path, lines in zip(months, (threads[:350], threads[350:]), strict=True):
        path.write_bytes(zstandard.compress(dump(lines)))
    sizes = ChunkSizes(block=20_000, partition=10_000)
    account = build_data("reddit", months, tmp_path / "out", sizes=sizes, engine=LocalEngine(processes))
    expected = run(threads)
    assert {*read_examples(tmp_path / "out")} == {*expected}
    assert len(expected) == 20 * 25
    assert all(split_of(example.thread) == "test" for example in read_examples(tmp_path / "out", "test"))
    kept = sum(counts.kept for counts in account.splits.values())
    assert account.lines == len(threads) == kept + account.dropped["answers the submission"]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.mark.parametrize(("text", "limit", "short"), [
    ("Matthew Henderson", 7, "Matthew"),          # the three cases of DATA19's own tests
    ("Matthew Henderson", 9, "Matthew "),
    ("one, two", 5, "one, "),
    ("one, two", 4, "one"),                       # between comma and space there is no boundary
    ("wait.....what", 6, "wait"),
    ("unbreakable", 5, ""),
    ("a bc", 1, "a"),
    ("na\u00efve caf\u00e9 society", 10, "na\u00efve caf\u00e9"),
])  # fmt: skip
def test_trim(text, limit, short):
    assert trim(text, limit) == short


@given(TEXT, st.integers(1, 70), st.integers(0, 5))
def test_one_character_beyond_the_limit_is_all_that_trimming_looks_at(text, limit, more):
    assert trim(text[: limit + 1 + more], limit) == trim(text, limit)


def reason(body, **settings):
    (state,) = judge(pa.array([body], pa.large_string()), RedditSettings(**settings))
    return LOST.get(int(state), "")


@pytest.mark.parametrize(("body", "expected"), [
    ("12345678", "too short"),
    ("x" * 127, ""),
    ("x" * 128, "too long"),
    ("\u00e9" * 127, ""),                          # characters, not bytes
    ("[deleted]", "deleted or removed"),
    ("[ Removed by Reddit ]", "deleted or removed"),
    (" [deleted]", ""),                            # only exactly that
    (" \n\u00a0\t      ", "nothing but white space"),
])  # fmt: skip
def test_lengths_in_characters(body, expected):
    assert reason(body) == expected


@pytest.mark.parametrize(("settings", "words"), [
    ({"min_length": 0}, "lengths go from 1 up"),
    ({"min_length": 10, "max_length": 9}, "min_length is 10 and max_length 9"),
    ({"depth": 0}, "depth is 0"),
    ({"cut": 0}, "cut is 0"),
    ({"subreddits": ("r/pics",)}, "without r/"),
    ({"subreddits": ("",)}, "give names"),
])  # fmt: skip
def test_settings_are_checked(settings, words):
    with pytest.raises(InputError, match=words):
        RedditSettings(**settings)
