"""Adding and deleting: the same answers as a rebuild; whole or not at all; positions for good."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.errors import InputError
from rejoinder.retrieval import index as index_module
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.manifest import DTYPES, Manifest, model_record
from tests.retrieval.conftest import HashEncoder

CONTEXTS = [["a0"], ["a3"], ["b1"], ["unknown"]]
A, B = [f"a{i}" for i in range(9)], [f"b{i}" for i in range(5)]
changes = st.lists(
    st.tuples(st.just("add"), st.lists(st.sampled_from([*A, *B]), max_size=6))
    | st.tuples(st.just("delete"), st.lists(st.integers(0, 30), max_size=6, unique=True)),
    max_size=6,
)
HOLDER = """
import sys
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def index(tmp_path, encoder):
    return Index.build(encoder, A, tmp_path / "index")


def answers(index, k=30):
    return [[(reply.text, reply.score, reply.position) for reply in replies] for replies in index.search(CONTEXTS, k)]


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=15)
@given(st.lists(st.sampled_from(A), max_size=6), changes)
def test_changes_equal_a_rebuild(tmp_path_factory, dtype, start, steps):
    """The law: whatever was added and deleted, the answers are those of an index of what is left."""
    folder, encoder = tmp_path_factory.mktemp("law"), HashEncoder()
    index = Index.build(encoder, start, folder / "changed", dtype=dtype)
    left = dict(enumerate(start))
    end = len(start)
    for kind, values in steps:
        if kind == "add":
            assert index.add(values, batch=4) == range(end, end + len(values))
            left |= dict(enumerate(values, end))
            end += len(values)
        else:
            gone = [position for position in values if position in left]
            assert index.delete(gone) == len(gone)
            left = {position: text for position, text in left.items() if position not in gone}
    rebuilt = Index.build(encoder, left.values(), folder / "rebuilt", dtype=dtype)
    positions = list(left)
    wanted = [[(text, score, positions[position]) for text, score, position in row] for row in answers(rebuilt)]
    assert answers(index) == answers(Index.open(folder / "changed", encoder)) == wanted
    assert [(position, candidate.text) for position, candidate in index] == list(left.items())
    assert len(index) == len(left)


def test_adding_encodes_only_what_is_new(index, encoder):
    encoder.calls.clear()
    index.add(B)
    assert encoder.calls == [5]


def test_deleting_what_is_not_there_deletes_nothing(index):
    index.delete([3])
    for positions, told in (([0, 9], "no reply 9; .* 0 to 8"), ([-1], "position is -1"), ([4, 3], "reply 3 .*before")):
        with pytest.raises(InputError, match=told):
            index.delete(positions)
    assert len(index) == 8


def test_where_its_model_is_gone_an_index_lists_and_deletes_but_does_not_search(index):
    bare = Index.open(index.folder)
    bare.delete([1])
    assert [candidate.text for _, candidate in bare] == [text for text in A if text != "a1"]
    for forbidden in (lambda: bare.search([["a"]]), lambda: bare.add(["a"])):
        with pytest.raises(InputError, match="no model 'hash-model' that encodes replies"):
            forbidden()


class CrashError(Exception):
    pass


def crash(*_args, **_kwargs):
    raise CrashError


STEPS = {
    "while encoding": lambda patch: patch.setattr(HashEncoder, "encode_responses", crash),
    "while writing": lambda patch: patch.setattr("rejoinder.retrieval.segments.small_form", crash),
    "before the folder is in place": lambda patch: patch.setattr(Path, "rename", crash),
    "before the manifest is written": lambda patch: patch.setattr(Manifest, "write", crash),
    "before the manifest is in place": lambda patch: patch.setattr(Path, "replace", crash),
}


@pytest.mark.parametrize(
    ("change", "step"), [("add", step) for step in STEPS] + [("delete", step) for step in STEPS if "manifest" in step]
)
def test_a_crash_between_the_steps_of_a_change_leaves_the_old_index_valid(index, encoder, change, step):
    before = answers(index)
    with pytest.MonkeyPatch.context() as patch:
        STEPS[step](patch)
        with pytest.raises(CrashError):
            index.add(B) if change == "add" else index.delete([0, 1])
    assert answers(index) == before
    opened = Index.open(index.folder, encoder, verify=True)
    assert answers(opened) == before
    assert opened.add(["b4", "b3"]) == range(9, 11)  # what the crash left is in nobody's way
    assert answers(Index.open(index.folder, encoder, verify=True)) == answers(opened)
    assert len(list(index.folder.glob("segment-*"))) == 2


def test_a_crash_after_the_manifest_is_in_place_has_added_everything(index, encoder, monkeypatch):
    monkeypatch.setattr(index_module, "Segment", crash)
    with pytest.raises(CrashError):
        index.add(B)
    monkeypatch.undo()
    assert len(Index.open(index.folder, encoder, verify=True)) == 14


def test_what_a_killed_process_left_is_swept_up_by_the_next_change(index):
    left = index.folder / ".segment-000000000009.ab12cd34.part"
    left.mkdir()
    (left / "vectors.f32").write_bytes(b"half")
    index.delete([0])
    assert not left.exists()


def test_a_change_by_somebody_else_is_not_overwritten(index, encoder):
    other = Index.open(index.folder, encoder)
    other.add(["theirs"])
    for change in (lambda: index.add(["mine"]), lambda: index.delete([0])):
        with pytest.raises(InputError, match="somebody else"):
            change()
    assert [candidate.text for _, candidate in Index.open(index.folder, encoder)] == [*A, "theirs"]


def test_two_processes_do_not_change_an_index_at_once(index):
    lock = index.folder.with_name(f".{index.folder.name}.lock")
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match="is being written by another process"):
            index.add(["mine"])
        process.kill()  # a lock dies with its process
    assert index.add(["mine"]) == range(9, 10)
    assert not lock.exists()


def test_two_builds_in_one_place_are_one(tmp_path, encoder):
    """The second one begins while the first encodes: it is refused, and does not overwrite what it cannot have seen."""
    refused = []

    def meanwhile(_count):
        for overwrite in (False, True):
            with pytest.raises(InputError, match="is being written by another process"):
                Index.build(encoder, ["second"], tmp_path / "x", overwrite=overwrite)
            refused.append(overwrite)

    built = Index.build(encoder, ["first"], tmp_path / "x", progress=meanwhile)
    assert len(refused) == 2
    assert [reply.text for _, reply in built] == ["first"]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verify", [True, False])
def test_a_reader_sees_the_old_index_or_the_new_one(index, encoder, monkeypatch, moment, verify):
    """It is replaced after its manifest was read, before or after its files are: by one of the same size, and again."""
    replies = [[f"z{i}" for i in range(9)], ["small"]]
    real = index_module.Segment

    def open_segment(*given, **options):
        if moment == "before":
            replace_it()
        opened = real(*given, **options)
        if moment == "after":
            replace_it()
        return opened

    def replace_it():
        if replies:
            monkeypatch.setattr(index_module, "Segment", real)
            Index.build(encoder, replies.pop(0), index.folder, overwrite=True)
            monkeypatch.setattr(index_module, "Segment", open_segment)

    monkeypatch.setattr(index_module, "Segment", open_segment)
    found = Index.open(index.folder, encoder, verify=verify)
    assert [reply.text for _, reply in found] == ["small"]
    assert found.search([["small"]], 1)[0][0].score > 0.99


def test_the_manifest_remembers_where_the_model_was_and_both_may_move_together(tmp_path):
    home = tmp_path / "home"
    (home / "model").mkdir(parents=True)
    (home / "index").mkdir()
    record = model_record("f", str(home / "model"), home / "index")
    assert Path(record.locate(home / "index")).samefile(home / "model")
    assert Path(record.locate(tmp_path / "far" / "away" / "index")).samefile(home / "model")  # the index moved alone
    home = home.rename(tmp_path / "new")
    assert Path(record.locate(home / "index")).samefile(home / "model")
    (home / "model").rmdir()
    with pytest.raises(InputError, match=r"which is gone.*--model"):
        record.locate(home / "index")
    assert model_record("f", "owner/name", home / "index").locate(home / "index") == "owner/name"
    with pytest.raises(InputError, match=r"does not say.*--model"):
        model_record("f", "", home / "index").locate(home / "index")
