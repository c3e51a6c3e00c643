"""Data folders: the same whatever runs the tasks, nothing twice, everything accounted for, whole or absent."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rejoinder.corpora import lines
from rejoinder.corpora.pipeline import chunks
from rejoinder.corpora import parquet as tables
from rejoinder.corpora.pipeline.build import build_data
from rejoinder.corpora.pipeline.work_folder import work_folder
from rejoinder.corpora.splits import SPLITS, split_of
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.corpora.lines import BadLineError, Reading
from rejoinder.engine import LocalEngine
from rejoinder.errors import InputError, MissingExtraError
from tests.corpora.jobs import (
    ENVIRONMENT,
    KINDS,
    TINY,
    Watched,
    build,
    contents,
    dialogues,
    pairs,
    scattered,
)
from tests.corpora.toy import TOY, toy_lines

FREE_NUMBER = 900  # of a descriptor: fewer are open here
FILES = ["data.json", "test-00000.parquet", "train-00000.parquet", "valid-00000.parquet"]


@pytest.fixture(scope="module")
def engines():
    with LocalEngine(1) as one, LocalEngine(2) as two:
        yield {1: one, 2: two}


@pytest.fixture
def chats(tmp_path):
    return dialogues(tmp_path / "chats.jsonl", 0, 300)


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
        assert all(split_of(example.thread) == split for example in parts[split])
    assert len({example.thread for part in parts.values() for example in part}) == 300


def test_history_and_faults_are_accounted_for(tmp_path):
    extra = 'oops\n{"turns": ["alone"]}\n{"turns": ["a", "", "b"]}\n'
    chats = dialogues(tmp_path / "chats.jsonl", 0, 3)
    chats.write_text(chats.read_text() + extra)
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


@pytest.mark.parametrize("stop", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("where", ["writing", "closing", "reading"])
def test_a_full_disk_or_ctrl_c_leaves_the_previous_folder(chats, tmp_path, monkeypatch, stop, where):
    account = build_data("jsonl", [chats], tmp_path / "data", limit=5)

    def fail(*_, **__):
        raise stop

    if where == "reading":
        monkeypatch.setattr(chunks, "split_of", fail)
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
    account = build_data("chitchat", [], tmp_path / "chit", limit=500)
    examples = list(read_examples(tmp_path / "chit"))
    assert len(examples) == 500
    assert {example.source for example in examples} == {"chitchat"}
    first = next(example for example in examples if example.id == "a07edb12-6b91-4138-b11e-02421888d699:2")
    assert first.context == ("Hello How are you doing today?", "whats up MD im doing good how are you doing?")
    assert first.response.startswith("Im alright, I just took a nap. But")
    assert account.inputs == []


def test_chitchat_without_its_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "chitchat_dataset", None)
    with pytest.raises(MissingExtraError, match="needs the extra 'demo': pip install"):
        build_data("chitchat", [], tmp_path / "chit")
    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_changes_nothing(tmp_path, engines, kind):
    source, inputs = KINDS[kind](tmp_path)
    one = build(source, inputs, tmp_path / "one")
    assert build(source, inputs, tmp_path / "more", engine=engines[2]) == one
    assert contents(tmp_path / "more") == contents(tmp_path / "one")
    assert len(list((tmp_path / "one").glob("train-*.parquet"))) > 1
    assert not work_folder(tmp_path / "one").exists()


def test_files_that_are_cut_where_they_are_read_give_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 500)
    source, inputs = scattered(tmp_path)
    for given in (inputs[0], tmp_path / "test.txt"):
        given.write_text(f"{given.read_text()}no\n{'x' * 600}\nno 2\n")
    readings = {kind: Reading(skip_bad=True) for kind in ("one", "far")}
    one, far = Watched(processes=2), Watched(processes=None)
    account = build(source, inputs, tmp_path / "one", engine=one, reading=readings["one"])
    assert build(source, inputs, tmp_path / "far", engine=far, reading=readings["far"]) == account
    assert contents(tmp_path / "far") == contents(tmp_path / "one")
    assert (far.done["scatter_file"], far.done["_scatter_block"]) == (3, 0)
    assert one.done["scatter_file"] == 2
    assert one.done["_scatter_block"] > one.done["_sort_blocks"] > 1
    assert account.bad_lines == 4
    with pytest.raises(BadLineError, match=r"one\.txt:301: no number"):
        build(source, inputs, tmp_path / "strict", engine=Watched(processes=None))


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_of_tasks_change_the_files_but_not_the_examples(tmp_path, kind):
    """By default there is one of everything here."""
    source, inputs = KINDS[kind](tmp_path)
    whole = build_data(source, inputs, tmp_path / "whole")
    assert sorted(contents(tmp_path / "whole"))[1:] == [f"{split}-00000.parquet" for split in sorted(SPLITS)]
    parts = build_data(source, inputs, tmp_path / "parts", sizes=TINY)
    if kind == "streamed":
        assert parts == whole
        assert pairs(tmp_path / "parts") == pairs(tmp_path / "whole")
    for split in SPLITS:
        assert parts.splits[split].read == whole.splits[split].read
    assert set(pairs(tmp_path / "parts")) == set(pairs(tmp_path / "whole"))
    assert len(pairs(tmp_path / "parts")) == len(pairs(tmp_path / "whole"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_is_the_first_of_what_there_is(tmp_path, kind):
    source, inputs = KINDS[kind](tmp_path)
    build(source, inputs, tmp_path / "all")
    for limit in (1, 100, 10_000):
        account = build(source, inputs, tmp_path / f"{limit}", limit=limit)
        kept = pairs(tmp_path / f"{limit}")
        assert len(kept) == min(limit, len(pairs(tmp_path / "all")))
        assert len(kept) == sum(counts.kept for counts in account.splits.values())
        assert set(kept) <= set(pairs(tmp_path / "all"))
        for split in SPLITS if kind == "streamed" else ():
            few = pairs(tmp_path / f"{limit}", split)
            assert few == pairs(tmp_path / "all", split)[: len(few)]


def test_mixed_candidates_are_refused_wherever_they_are(tmp_path):
    one, two = dialogues(tmp_path / "one.jsonl", 0, 90), tmp_path / "two.jsonl"
    two.write_text('{"context": ["a"], "candidates": ["b", "c"], "label": 0, "thread": "x"}\n')
    for sizes in (None, TINY):
        with pytest.raises(InputError, match="some examples of the train part have candidates and some have none"):
            build_data("jsonl", [one, two], tmp_path / "data", sizes=sizes)


def bad_files(folder):
    for place in range(3):
        file = dialogues(folder / f"{place}.jsonl", 100 * place, 100 * place + 100)
        file.write_text(file.read_text() + "oops\n" * 4)
    return sorted(folder.glob("*.jsonl"))


@pytest.mark.parametrize("processes", [1, 2])
def test_bad_lines_count_over_all_processes(tmp_path, engines, processes):
    files, faults = bad_files(tmp_path), []
    reading = Reading(skip_bad=True, max_bad=12, on_fault=faults.append)
    account = build("jsonl", files, tmp_path / "data", reading=reading, engine=engines[processes])
    assert account.bad_lines == reading.bad_lines == len(faults) == 12
    assert account.lines == 312
    assert account.faults == faults[:10]
    reading = Reading(skip_bad=True, max_bad=11)
    with pytest.raises(InputError, match=r"more than 11 bad lines, the first: .*0\.jsonl:101: not JSON.*--skip-bad"):
        build("jsonl", files, tmp_path / "other", reading=reading, engine=engines[processes])


def test_what_was_read_before_a_bad_line_is_used_when_it_is_skipped(tmp_path):
    files = bad_files(tmp_path)
    files[0].write_text("\n".join(files[0].read_text().splitlines()[:100]))
    with pytest.raises(BadLineError, match=r"1\.jsonl:101: not JSON"):
        build("jsonl", files, tmp_path / "data")
    account = build("jsonl", files, tmp_path / "data", reading=Reading(skip_bad=True))
    assert (account.bad_lines, account.lines) == (8, 308)
    # And the other way round: what was skipped is not forgiven.
    with pytest.raises(BadLineError, match=r"1\.jsonl:101: not JSON"):
        build("jsonl", files, tmp_path / "data")


def test_progress_adds_up_to_the_size_of_the_input(tmp_path):
    for kind, make in KINDS.items():
        (tmp_path / kind).mkdir()
        source, inputs = make(tmp_path / kind)
        steps = []
        build(source, inputs, tmp_path / kind / "data", progress=steps.append)
        sizes = [Path(str(path).removeprefix("test=").removeprefix("valid=")).stat().st_size for path in inputs]
        assert sum(steps) == sum(sizes)
        assert len(steps) > 3
        assert min(steps) > 0


@pytest.mark.parametrize("source", ["jsonl", TOY], ids=KINDS)
def test_a_pipe_is_read_here_and_never_taken_up_again(tmp_path, engines, source):
    same = dialogues(tmp_path / "same.txt", 0, 100)
    if source is TOY:
        same.write_text("".join(f"{line}\n" for line in toy_lines(50)))
    whole = build(source, [same], tmp_path / "whole")
    for _ in range(2):
        with subprocess.Popen(["cat", same], stdout=subprocess.PIPE) as writer:
            # the same number twice, that nothing else in this process has
            number = fcntl.fcntl(writer.stdout.fileno(), fcntl.F_DUPFD_CLOEXEC, FREE_NUMBER)
            account = build(source, [f"/dev/fd/{number}"], tmp_path / "data", engine=engines[2])
            os.close(number)
    assert account.splits == whole.splits
    assert set(pairs(tmp_path / "data")) == set(pairs(tmp_path / "whole"))


MEMORY = """
    import resource, sys
    from pathlib import Path
    from rejoinder.corpora.pipeline.build import build_data
    from rejoinder.corpora.pipeline.chunks import ChunkSizes
    from tests.corpora.toy import TOY

    if __name__ == "__main__":
        source = TOY if sys.argv[1] == "scattered" else "jsonl"
        sizes = ChunkSizes(block=50_000, partition=100_000, chunk=2_000, bucket=2_000)
        build_data(source, [sys.argv[2]], Path(sys.argv[2] + ".out"), sizes=sizes)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_memory_does_not_grow_with_the_input(tmp_path, kind):
    """The peak of a process, for an input and for five times as much, whose examples would take 300 MB."""
    script, peaks = tmp_path / "script.py", []
    script.write_text(textwrap.dedent(MEMORY))
    for times in (1, 5):
        path = tmp_path / f"{times}.txt"
        if kind == "scattered":
            texts = toy_lines(3_000 * times, messages=10, words=12)
        else:
            turns = (toy_lines(1, seed, messages=10, words=12) for seed in range(3_000 * times))
            texts = [json.dumps({"turns": each}) for each in turns]
        path.write_text("".join(f"{text}\n" for text in texts))
        command = [sys.executable, script, kind, path]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
        peaks.append(int(done.stdout))
    assert peaks[1] < 1.15 * peaks[0]


PAIRS = "question,answer\nWhere {0}?,There {0}.\n"
ALIKE = {  # a file of each corpus, for one word
    "jsonl": ("x.jsonl", '{{"turns": ["Where {0}?", "There {0}."]}}\n'),
    "csv": ("x.csv", PAIRS),
    "faq": ("x.csv", PAIRS),
    "chats": ("x.csv", "conversation,author,text\n1,bea,Where {0}?\n1,bot,There {0}.\n"),
    "convai2": ("x.txt", "1 Where {0}?\tThere {0}.\n"),
    "ubuntu": ("x.csv", "Context,Utterance,Label\nWhere {0}? __eou__ __eot__,There {0}. __eou__,1\n"),
}


@pytest.mark.parametrize("corpus", ALIKE)
def test_examples_of_files_that_share_a_name_have_ids_of_their_own(tmp_path, corpus):
    name, text = ALIKE[corpus]
    files = [tmp_path / folder / name for folder in ("d1", "d2")]
    for file in files:
        file.parent.mkdir()
        file.write_text(text.format(file.parent.name))
    build(corpus, files, tmp_path / "both")
    ids = sorted(example.id for example in read_examples(tmp_path / "both"))
    assert [identifier.partition("/")[0] for identifier in ids] == ["d1", "d2"]
    build(corpus, files[:1], tmp_path / "one")
    (only,) = read_examples(tmp_path / "one")
    assert ids[0] == f"d1/{only.id}"
