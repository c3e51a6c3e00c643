"""Canned replies out of chats: groups, their texts, what they answered, what is left."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.arrays import unit_rows
from rejoinder.corpora.schema import Example
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.curation import cover, mining
from rejoinder.curation.cover import choose
from rejoinder.curation.mined_file import check_output, write_replies
from rejoinder.curation.mining import mine_examples
from rejoinder.errors import InputError
from tests.retrieval.test_examples import WordEncoder

SHIPS = [
    Example(("Hello?", f"where is it {day}"), f"Your order {number} ships on {day}.")
    for number, day in enumerate(["Monday", "Friday", "Sunday", "Tuesday"], 4711)
]
WELCOME = [Example((f"thanks {word}",), "You are welcome!") for word in ("so", "very", "a lot")]
OTHER = [Example(("hm",), "Purple elephants dance rarely near volcanoes.")]


def test_messages_are_grouped_and_what_they_answered_is_kept():
    mined = mine_examples([*SHIPS, *OTHER, *WELCOME], WordEncoder(), least=2)
    assert [(reply.text, reply.count) for reply in mined.replies] == [
        ("Your order {order} ships on {date}.", 4),
        ("You are welcome!", 3),
    ]
    assert mined.messages == 8
    assert mined.curve() == [(1, 0.5), (2, 0.875)]
    assert mined.uncovered == (("Purple elephants dance rarely near volcanoes.", 1),)
    assert set(mined.replies[1].examples) == {("thanks so",), ("thanks very",), ("thanks a lot",)}
    assert mined.replies[0].examples[0][0] == "Hello?"


def test_blank_messages_take_no_place_among_the_newest_ones():
    chats = [Example((f"where is it {day}", "", " ", "", ""), "It is on its way.") for day in "abc"]
    [reply] = mine_examples(chats, WordEncoder()).replies
    assert set(reply.examples) == {("where is it a",), ("where is it b",), ("where is it c",)}


def test_the_most_replies_are_those_that_cover_most():
    mined = mine_examples([*WELCOME, *SHIPS], WordEncoder(), most=1, least=1)
    assert [reply.count for reply in mined.replies] == [4]
    assert mined.uncovered == (("You are welcome!", 3),)


def test_chats_without_a_message_are_refused():
    with pytest.raises(InputError, match="no message of an agent"):
        mine_examples([], WordEncoder())


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 30))
def test_the_cover_is_greedy_and_exact(seed, most):
    draw = np.random.default_rng(seed)
    vectors = unit_rows(draw.normal(size=(40, 3)).astype(np.float32))
    counts = draw.integers(1, 5, 40).astype(np.float32)
    near = vectors @ vectors.T >= 0.8
    left = counts.copy()
    for row in choose(vectors, counts, most, 0.8).tolist():
        gains = near @ left
        gains[left == 0] = -1
        assert gains[row] == gains.max()
        left[near[row]] = 0
    assert left.sum() == 0 or len(choose(vectors, counts, most, 0.8)) == most


def test_of_many_messages_some_are_compared(monkeypatch):
    monkeypatch.setattr(cover, "COMPARED", 50)
    vectors = unit_rows(np.eye(3, dtype=np.float32)[np.arange(300) % 3])
    chosen = choose(vectors, np.ones(300, np.float32), 10, 0.9)
    assert sorted((chosen % 3).tolist()) == [0, 1, 2]


@pytest.mark.parametrize("name", ["replies.csv", "replies.jsonl"])
def test_an_index_is_built_of_what_is_written(tmp_path, name):
    chats = [*SHIPS, *WELCOME, *[Example(("=1+2",), "=SUM(A1) is a formula.")] * 2]
    write_replies(mine_examples(chats, WordEncoder(), least=2), tmp_path / name)
    replies = list(read_candidates(tmp_path / name))
    assert [reply.text for reply in replies] == [
        "Your order {order} ships on {date}.", "You are welcome!", "=SUM(A1) is a formula.",
    ]  # fmt: skip
    assert [example[-1] for example in replies[2].examples] == ["=1+2"]
    assert int(replies[0].payload["count"]) == 4


def test_no_cell_is_a_formula_and_equal_texts_are_merged(tmp_path):
    path = tmp_path / "replies.csv"
    mined = mine_examples(
        [*WELCOME, *[Example(("@you",), "-1 is less than 0.")] * 2], WordEncoder(), least=2
    )
    write_replies(mined, path)
    rows = list(csv.reader(path.open(encoding="utf-8", newline="")))
    assert all(cell[:1] not in ("=", "+", "-", "@") for row in rows for cell in row)
    rows[2][0] = rows[1][0]  # a person merges two
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    [reply] = read_candidates(path)
    assert len(reply.examples) == 4


def test_chats_in_which_nothing_is_repeated_enough_are_refused():
    with pytest.raises(InputError, match=r"9 messages or more: the largest group has 4 of 8; lower --least"):
        mine_examples([*SHIPS, *OTHER, *WELCOME], WordEncoder(), least=9)


def test_outputs_are_checked_before_the_work(tmp_path):
    with pytest.raises(InputError, match=r"\.csv or \.jsonl"):
        check_output(tmp_path / "replies.txt", overwrite=False)
    (tmp_path / "replies.csv").write_text("edited", encoding="utf-8")
    with pytest.raises(InputError, match="--overwrite"):
        check_output(tmp_path / "replies.csv", overwrite=False)
    check_output(tmp_path / "replies.csv", overwrite=True)


@pytest.mark.parametrize("name", ["replies.csv", "replies.jsonl"])
def test_a_file_that_came_meanwhile_is_not_overwritten(tmp_path, name):
    mined = mine_examples(WELCOME, WordEncoder())
    (tmp_path / name).write_text("of another run", encoding="utf-8")
    with pytest.raises(InputError, match="--overwrite"):
        write_replies(mined, tmp_path / name, overwrite=False)
    assert [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()] == ["of another run"]


def test_json_lines_hold_all_of_a_reply(tmp_path):
    write_replies(mine_examples(WELCOME, WordEncoder()), tmp_path / "r.jsonl")
    [line] = (tmp_path / "r.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line).keys() == {"text", "count", "covered", "wordings", "examples"}


def test_chats_are_mined_in_python_with_the_settings_of_the_command(tmp_path):
    chats = tmp_path / "chats.jsonl"
    lines = [
        {
            "messages": [
                {"role": "user", "content": f"Where is parcel {at}?"},
                {"role": "assistant", "content": "It is on its way, write to bea@example.com."},
            ]
        }
        for at in range(4)
    ]
    chats.write_text("".join(json.dumps(line) + "\n" for line in lines))
    notes = []
    [reply] = mining.mine(chats, WordEncoder(), note=notes.append).replies
    assert (reply.count, "bea@example.com" in reply.text) == (4, False)
    [plain] = mining.mine([chats], WordEncoder(), settings={"redact": False}, note=notes.append).replies
    assert "bea@example.com" in plain.text
    with pytest.raises(InputError, match="nothing"):
        mining.mine(tmp_path / "nothing.zip", WordEncoder())
    with pytest.raises(InputError, match="redakt"):
        mining.mine(chats, WordEncoder(), settings={"redakt": False})
    examples = [Example(("Where is it?",), "On its way.")]
    for wrong in ((WordEncoder(), examples), (examples, WordEncoder()), (None, WordEncoder())):
        with pytest.raises(InputError, match=r"name exports of chats first, then the model; .*; given: "):
            mining.mine(*wrong)
