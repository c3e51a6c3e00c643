"""Data folders: nothing twice, no thread in two parts, everything accounted for, whole or absent."""

from __future__ import annotations

import errno
import json
from collections import defaultdict

import pytest

from rejoinder.corpora import job, tables
from rejoinder.corpora.build import build_data
from rejoinder.corpora.example import SPLITS
from rejoinder.corpora.examples import read_examples
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.splits import split_of
from rejoinder.errors import InputError, MissingExtraError

FILES = ["data.json", "test-00000.parquet", "train-00000.parquet", "valid-00000.parquet"]


def write_dialogues(path, count, *, start=0, extra=""):
    dialogues = ([f"{number} says", f"reply {number}", "same end"] for number in range(start, start + count))
    lines = (json.dumps({"turns": turns}) for turns in dialogues)
    path.write_text("".join(f"{line}\n" for line in lines) + extra)
    return path


@pytest.fixture
def chats(tmp_path):
    return write_dialogues(tmp_path / "chats.jsonl", 300)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_built(chats, tmp_path):
    account = build_data("jsonl", [chats], tmp_path / "data")
    assert names(tmp_path / "data") == FILES
    parts = {split: list(read_examples(tmp_path / "data", split)) for split in SPLITS}
    assert all(parts.values())
    assert sum(map(len, parts.values())) == 600
    assert json.loads((tmp_path / "data" / "data.json").read_text()) == account.to_json()
    for split, counts in account.splits.items():
        assert (counts.read, counts.kept, counts.dropped) == (len(parts[split]), len(parts[split]), {})


def test_no_thread_is_in_two_parts(chats, tmp_path):
    build_data("jsonl", [chats], tmp_path / "data")
    parts = defaultdict(set)
    for split in SPLITS:
        for example in read_examples(tmp_path / "data", split):
            parts[example.thread].add(split)
            assert split_of(example.thread) == split
    assert len(parts) == 300
    assert all(len(part) == 1 for part in parts.values())


def test_copies_are_dropped_over_files_and_parts(chats, tmp_path):
    again = tmp_path / "again.jsonl"
    lines = [json.loads(line) for line in chats.read_text().splitlines()]
    again.write_text("".join(json.dumps({**line, "thread": f"other {line['turns'][0]}"}) + "\n" for line in lines))
    account = build_data("jsonl", [chats, again], tmp_path / "data")
    dropped = {split: counts.dropped.get("duplicate", 0) for split, counts in account.splits.items()}
    assert sum(dropped.values()) == 600
    assert all(counts.read == counts.kept + dropped[split] for split, counts in account.splits.items())
    pairs = [(each.context, each.response) for each in read_examples(tmp_path / "data")]
    assert len(pairs) == len(set(pairs)) == 600


def test_the_split_of_a_thread_does_not_change_when_data_is_added(chats, tmp_path):
    build_data("jsonl", [chats], tmp_path / "few")
    build_data("jsonl", [write_dialogues(tmp_path / "more.jsonl", 400, start=300), chats], tmp_path / "many")
    for split in SPLITS:
        assert {e.thread for e in read_examples(tmp_path / "few", split)} <= {
            e.thread for e in read_examples(tmp_path / "many", split)
        }


def test_a_limit_counts_what_is_kept(chats, tmp_path):
    account = build_data("jsonl", [chats, chats], tmp_path / "data", limit=7)
    assert sum(counts.kept for counts in account.splits.values()) == 7
    assert len(list(read_examples(tmp_path / "data"))) == 7
    assert account.limit == 7


def test_history_and_faults_are_accounted_for(tmp_path):
    extra = 'oops\n{"turns": ["alone"]}\n{"turns": ["a", "", "b"]}\n'
    chats = write_dialogues(tmp_path / "chats.jsonl", 3, extra=extra)
    with pytest.raises(InputError, match=r"chats\.jsonl:4: not JSON"):
        build_data("jsonl", [chats], tmp_path / "data")
    assert names(tmp_path) == ["chats.jsonl"]
    account = build_data("jsonl", [chats], tmp_path / "data", reading=Reading(skip_bad=True, history=0)).to_json()
    expected = {"lines": 6, "bad_lines": 1, "blank_messages": 1, "without_reply": 1, "history": 0, "limit": None}
    assert {name: account[name] for name in expected} == expected
    assert account["faults"][0].startswith(f"{chats}:4: not JSON")
    assert {len(example.context) for example in read_examples(tmp_path / "data")} == {1}


def test_nothing_to_keep_is_an_error_that_says_why(tmp_path):
    alone = tmp_path / "alone.jsonl"
    alone.write_text('{"turns": ["a"]}\n')
    with pytest.raises(InputError, match=r"no example in 1 lines; a dialogue needs a message and a response"):
        build_data("jsonl", [alone], tmp_path / "data")
    alone.write_text("x\ny\n")
    with pytest.raises(InputError, match=r"2 of 2 lines are bad, the first: .*alone\.jsonl:1: not JSON"):
        build_data("jsonl", [alone], tmp_path / "data", reading=Reading(skip_bad=True))
    assert names(tmp_path) == ["alone.jsonl"]


@pytest.mark.parametrize(
    ("source", "inputs", "reason"),
    [
        ("twitter", ["x"], "no source 'twitter'; there are chitchat, jsonl, csv"),
        ("chitchat", ["x"], "chitchat brings its own data; leave x out"),
        ("jsonl", [], "jsonl reads files; name at least one"),
        ("csv", ["missing.csv"], r"missing\.csv does not exist"),
    ],
)
def test_sources_and_inputs_must_fit(tmp_path, source, inputs, reason):
    with pytest.raises(InputError, match=reason):
        build_data(source, inputs, tmp_path / "data")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("before", "what"),
    [
        ({"data.json": '{"mine": 1}'}, r"has no data\.json that says it is a folder of examples"),
        ({"data.json": "no json"}, r"has no data\.json that says it is a folder of examples"),
        ({"data.json": '{"format": "rejoinder examples 1"}', "thesis.tex": "x"}, r"holds thesis\.tex"),
        ({"thesis.tex": "x"}, "so it is not ours to replace"),
    ],
)
def test_folders_of_others_are_not_replaced(chats, tmp_path, before, what):
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in before.items():
        (folder / name).write_text(text)
    with pytest.raises(InputError, match=what):
        build_data("jsonl", [chats], folder, overwrite=True)
    assert names(folder) == sorted(before)


def test_examples_that_another_call_made_are_replaced_only_if_that_is_wanted(chats, tmp_path):
    folder = tmp_path / "data"
    build_data("jsonl", [chats], folder, limit=5)
    build_data("jsonl", [chats], folder, limit=5)
    with pytest.raises(InputError, match="is a folder of examples already; replace it with --overwrite"):
        build_data("jsonl", [chats], folder)
    assert len(list(read_examples(folder))) == 5
    build_data("jsonl", [chats], folder, overwrite=True)
    assert len(list(read_examples(folder))) == 600


@pytest.mark.parametrize("stop", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("where", ["writing", "closing", "reading"])
def test_a_full_disk_or_ctrl_c_leaves_the_previous_folder(chats, tmp_path, monkeypatch, stop, where):
    account = build_data("jsonl", [chats], tmp_path / "data", limit=5)

    def fail(*_, **__):
        raise stop

    if where == "reading":
        monkeypatch.setattr(job, "split_of", fail)
    else:
        monkeypatch.setattr(tables.pq.ParquetWriter, {"writing": "write_table", "closing": "close"}[where], fail)
    with pytest.raises(type(stop)):
        build_data("jsonl", [chats], tmp_path / "data", overwrite=True)
    monkeypatch.undo()
    # What was read is kept, if reading came to its end.
    assert names(tmp_path) == [*([] if where == "reading" else [".data.work"]), "chats.jsonl", "data"]
    assert names(tmp_path / "data") == FILES
    assert len(list(read_examples(tmp_path / "data"))) == 5
    assert json.loads((tmp_path / "data" / "data.json").read_text()) == account.to_json()
    build_data("jsonl", [chats], tmp_path / "data", overwrite=True)
    assert names(tmp_path) == ["chats.jsonl", "data"]
    assert len(list(read_examples(tmp_path / "data"))) == 600


def test_chitchat(tmp_path):
    account = build_data("chitchat", [], tmp_path / "chit", limit=2_000)
    examples = list(read_examples(tmp_path / "chit"))
    assert len(examples) == 2_000
    assert {example.source for example in examples} == {"chitchat"}
    first = next(example for example in examples if example.id == "a07edb12-6b91-4138-b11e-02421888d699:2")
    assert first.context == ("Hello How are you doing today?", "whats up MD im doing good how are you doing?")
    assert first.response.startswith("Im alright, I just took a nap. But")
    assert account.inputs == []


def test_chitchat_without_its_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "chitchat_dataset", None)
    with pytest.raises(MissingExtraError, match=r"rejoinder\[demo\]"):
        build_data("chitchat", [], tmp_path / "chit")
    assert names(tmp_path) == []
