"""`rejoinder data`, from the command line to the exit code."""

from __future__ import annotations

import errno
import json
import re
import sys

import pytest

from rejoinder.corpora import tables
from rejoinder.corpora.examples import read_examples
from rejoinder.corpora.sources import CORPORA
from tests.corpora.toy import TOY, toy_lines

VERB = ["data"]

DIALOGUES = "".join(json.dumps({"turns": [f"{number} says", f"reply {number}", "end"]}) + "\n" for number in range(200))


@pytest.fixture
def chats(tmp_path):
    path = tmp_path / "chats.jsonl"
    path.write_text(DIALOGUES)
    return path


def test_what_is_printed(command, chats, tmp_path):
    code, out, err = command("jsonl", chats, chats, "-o", tmp_path / "data")
    assert code == 0
    rows = {line.split()[0]: line.split() for line in out.splitlines()}
    kept = {split: len(list(read_examples(tmp_path / "data", split))) for split in ("train", "valid", "test")}
    assert sum(kept.values()) == 400
    for split, count in kept.items():
        assert rows[split] == [split, str(2 * count), str(count), str(count), f"({count}", "duplicate)"]
    assert "400 lines read, 0 bad ones skipped" in out
    assert out.endswith(f"examples: {tmp_path / 'data'}\n")
    size = 2 * chats.stat().st_size
    assert f"{size:,} of {size:,} bytes" in err


def test_json_is_one_object_on_standard_output(command, chats, tmp_path):
    code, out, _ = command("jsonl", chats, "-o", tmp_path / "data", "--json", "--limit", 9, "--history", 0)
    result = json.loads(out)
    assert code == 0
    assert result.pop("output") == str(tmp_path / "data")
    assert result == json.loads((tmp_path / "data" / "data.json").read_text())
    assert sum(split["kept"] for split in result["splits"].values()) == 9
    assert (result["limit"], result["history"]) == (9, 0)


def test_history_is_cut_kept_whole_or_refused(command, tmp_path):
    (tmp_path / "long.jsonl").write_text(json.dumps({"turns": [f"turn {number}" for number in range(14)]}))
    code, out, _ = command("jsonl", tmp_path / "long.jsonl", "-o", tmp_path / "cut")
    assert code == 0
    assert "2 contexts lost their oldest messages (--history 10)" in out
    code, out, _ = command("jsonl", tmp_path / "long.jsonl", "-o", tmp_path / "all", "--history", "all")
    assert code == 0
    assert "oldest messages" not in out
    assert max(len(example.context) for example in read_examples(tmp_path / "all")) == 13
    built = [json.loads((tmp_path / name / "data.json").read_text()) for name in ("cut", "all")]
    assert [(each["history"], each["cut_contexts"]) for each in built] == [(10, 2), (None, 0)]
    for wrong in ("-1", "many", "1" * 20):
        code, _, err = command("jsonl", tmp_path / "long.jsonl", "-o", tmp_path / "no", f"--history={wrong}")
        assert (code, "must be a number from 0 on, or all" in err) == (2, True)


def test_csv_and_an_empty_part(command, tmp_path):
    (tmp_path / "faq.csv").write_text("question,answer\nWhere?,There.\n")
    code, out, _ = command("csv", tmp_path / "faq.csv", "-o", tmp_path / "data")
    assert code == 0
    assert "more conversations are needed" in out
    assert "faq.csv:1: a header, not an example" in out
    assert len(list(read_examples(tmp_path / "data"))) == 1


def test_chitchat(command, tmp_path):
    code, out, err = command("chitchat", "-o", tmp_path / "data", "--limit", 300)
    assert code == 0
    assert "conversations read" in out
    assert re.search(r"reading chitchat: ([\d,]+) of \1 bytes", err)


def test_bad_lines_stop_or_are_skipped_and_shown(command, chats, tmp_path):
    chats.write_text(DIALOGUES + "oops\n" * 30)
    code, out, err = command("jsonl", chats, "-o", tmp_path / "data")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"rejoinder: error: {chats}:201: not JSON")
    assert "--skip-bad" in err
    assert "Traceback" not in err
    code, out, err = command("jsonl", chats, "-o", tmp_path / "data", "--skip-bad")
    assert code == 0
    assert "30 bad ones skipped" in out
    assert err.count("skipped: ") == 11
    assert "skipped: 20 more bad lines there" in err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["twitter", "chats.jsonl"], "no source 'twitter'"),
        (["chitchat", "chats.jsonl"], "leave chats.jsonl out"),
        (["jsonl"], "name at least one"),
        (["jsonl", "missing.jsonl"], "missing.jsonl does not exist"),
        (["jsonl", "."], ". is a folder; name the files in it"),
        (["jsonl", "empty.jsonl"], "empty.jsonl is empty"),
        (["jsonl", "binary.jsonl"], "binary data"),
        (["jsonl", "cut.jsonl.gz"], "cut.jsonl.gz is cut off"),
    ],
)
def test_bad_input_is_one_line_and_code_2(command, chats, tmp_path, monkeypatch, arguments, reason):
    import gzip

    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "binary.jsonl").write_bytes(bytes(range(256)))
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(chats.read_bytes())[:-20])
    code, out, err = command(*arguments, "-o", "data")
    assert (code, out) == (2, "")
    assert reason in err.splitlines()[-1]
    assert not (tmp_path / "data").exists()


def test_the_corpora_are_listed_and_each_is_told_about(command):
    code, out, _ = command("--about")
    assert code == 0
    assert {line.split()[0] for line in out.splitlines() if line} >= {"chitchat", "jsonl", "csv", "rejoinder"}
    code, out, _ = command("chitchat", "--about")
    assert code == 0
    for text in ("licence   MIT", "origin    pip install chitchat-dataset", "expected  7,168", "no settings"):
        assert text in out
    listed = json.loads(command("--about", "--json")[1])["sources"]
    for name, title in listed.items():
        told = json.loads(command(name, "--about", "--json")[1])
        assert (told["name"], told["title"]) == (name, title)
        assert set(told) == {"name", "title", "reads", "licence", "origin", "expected", "settings"}
    assert command("nope", "--about")[0] == 2


def test_settings_of_a_corpus(command, chats, tmp_path, monkeypatch):
    monkeypatch.setitem(CORPORA, "toy", TOY)
    code, out, _ = command("toy", "--about")
    assert code == 0
    assert "  shortest=1  (int)\n      Fewest characters of a message." in out
    path = tmp_path / "toy.txt"
    path.write_text("".join(f"{line}\n" for line in toy_lines(100)))
    code, out, _ = command("toy", path, "-o", tmp_path / "data", "--set", "shortest=9", "--json")
    assert code == 0
    assert json.loads(out)["settings"] == {"shortest": 9}
    code, out, _ = command("toy", path, "-o", tmp_path / "data", "--set", "shortest=9")
    assert "short message" in out
    code, _, err = command("toy", path, "-o", tmp_path / "data", "--set", "shortest=x")
    assert (code, "it should be a valid integer; shortest (int, default 1): Fewest characters" in err) == (2, True)
    code, _, err = command("jsonl", chats, "-o", tmp_path / "data", "--set", "a=1")
    assert (code, "jsonl has no settings" in err) == (2, True)


def test_given_parts(command, chats, tmp_path):
    code, out, _ = command("jsonl", f"test={chats}", "-o", tmp_path / "data", "--json")
    assert code == 0
    assert {split: counts["kept"] for split, counts in json.loads(out)["splits"].items()} == {
        "train": 0,
        "valid": 0,
        "test": 400,
    }


def test_processes_change_nothing(command, tmp_path):
    files = []
    for place in range(3):
        files.append(tmp_path / f"{place}.jsonl")
        files[-1].write_text(DIALOGUES.replace("says", f"says {place}"))
    assert command("jsonl", *files, "-o", tmp_path / "one", "--processes", 1)[0] == 0
    assert command("jsonl", *files, "-o", tmp_path / "two", "--processes", 2)[0] == 0
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_too_many_bad_lines(command, chats, tmp_path):
    chats.write_text(DIALOGUES + "oops\n" * 30)
    code, out, err = command("jsonl", chats, "-o", tmp_path / "data", "--skip-bad", "--max-bad", 29)
    assert (code, out) == (2, "")
    assert "more than 29 bad lines" in err
    assert command("jsonl", chats, "-o", tmp_path / "data", "--skip-bad", "--max-bad", 30)[0] == 0


@pytest.mark.parametrize("options", [[], ["-o", "data", "--limit", "0"], ["-o", "data", "--history", "-1"]], ids=str)
def test_bad_options_are_code_2(command, options):
    assert command("jsonl", "x", *options)[0] == 2


@pytest.mark.parametrize(
    ("stop", "code", "line"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 1, "no space left"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
    ids=["full disk", "ctrl-c"],
)
def test_a_full_disk_and_ctrl_c_leave_what_was_there(command, chats, tmp_path, monkeypatch, stop, code, line):
    assert command("jsonl", chats, "-o", tmp_path / "data", "--limit", 5)[0] == 0

    def fail(*_):
        raise stop

    monkeypatch.setattr(tables.pq.ParquetWriter, "write_table", fail)
    given, out, err = command("jsonl", chats, "-o", tmp_path / "data", "--overwrite")
    assert (given, out) == (code, "")
    assert line in err.splitlines()[-1]
    assert "Traceback" not in err
    assert f"what is finished is kept in {tmp_path / '.data.work'}; the same command goes on" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == [".data.work", "chats.jsonl", "data"]
    assert len(list(read_examples(tmp_path / "data"))) == 5


def test_options_of_a_cluster_that_do_not_fit(command, chats, tmp_path, monkeypatch):
    for options, words in (
        (["--engine", "spark"], "--engine must be local or ray, not 'spark'"),
        (["--address", "auto"], "give --engine ray with it"),
        (["--engine", "ray", "--processes", 2], "--processes is for this machine"),
    ):
        code, out, err = command("jsonl", chats, "-o", tmp_path / "data", *options)
        assert (code, out) == (2, "")
        assert words in err
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = command("jsonl", chats, "-o", tmp_path / "data", "--engine", "ray")
    assert code == 2
    assert err == "rejoinder: error: --engine ray needs the extra 'cluster': pip install 'rejoinder[cluster]'\n"
