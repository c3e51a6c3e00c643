"""Adding and deleting: the same answers as a rebuild; whole or not at all; positions for good."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.retrieval import index as index_module
from rejoinder.stores import writing
from rejoinder.retrieval.index import Index
from rejoinder.stores.folder.store import MANIFEST, FolderStore
from rejoinder.stores.models import model_record
from rejoinder.stores.postgres.store import PostgresStore
from rejoinder.stores.scan import exact_scores
from tests.retrieval.conftest import HashEncoder
from tests.stores import segments_of

FILES = Path("/proc/self/fd")
CONTEXTS = [["a0"], ["a3"], ["b1"], ["unknown"]]
A, B = [f"a{i}" for i in range(9)], [f"b{i}" for i in range(5)]
changes = st.lists(
    st.tuples(st.just("add"), st.lists(st.sampled_from([*A, *B]), max_size=6))
    | st.tuples(st.just("delete"), st.lists(st.integers(0, 30), max_size=6, unique=True))
    | st.tuples(st.sampled_from(["compact", "reopen", "refresh"]), st.just([])),
    max_size=8,
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


def answers(index, k=30, **options):
    found = index.search(CONTEXTS, k, distinct=False, **options)
    return [[(reply.text, reply.score, reply.position) for reply in replies] for replies in found]


def brute_force(encoder, replies):
    """The answers of an index of the texts at these positions."""
    positions, texts = list(replies), list(replies.values())
    found = []
    for query in encoder.encode_contexts(CONTEXTS):
        scores = exact_scores(query[None], encoder.encode_responses(texts)) if texts else []
        best = sorted(zip(texts, scores, positions, strict=True), key=lambda each: (-each[1], each[2]))
        found.append(best[:30])
    return found


def of(text):
    return Candidate(text, {"kind": text[0]})


@settings(max_examples=45)
@given(st.lists(st.sampled_from(A), max_size=6), changes)
def test_changes_equal_brute_force(tmp_path_factory, start, steps):
    """The law: whatever was added, deleted and compacted, the answers are the best of what is left.

    A reader that did not refresh sees what was there before, one that did what is there now.
    """
    folder, encoder = tmp_path_factory.mktemp("law") / "index", HashEncoder()
    index = Index.build(encoder, map(of, start), folder)
    left = dict(enumerate(start))
    end = len(start)
    reader, seen = Index.open(folder, encoder), left
    for kind, values in steps:
        if kind == "add":
            assert index.add(map(of, values), batch=4) == range(end, end + len(values))
            left = left | dict(enumerate(values, end))
            end += len(values)
        elif kind == "delete":
            gone = [position for position in values if position in left]
            assert index.delete(gone) == len(gone)
            left = {position: text for position, text in left.items() if position not in gone}
        elif kind == "compact":
            index.compact(batch=4)
            assert len(list(folder.glob("segment-*"))) <= 1
        elif kind == "reopen":
            index = Index.open(folder, encoder, verify=True)
        else:
            assert reader.refresh() or seen == left
            seen = left
        assert answers(reader) == brute_force(encoder, seen)
    assert answers(index) == answers(Index.open(folder, encoder)) == brute_force(encoder, left)
    assert [(position, candidate) for position, candidate in index] == [(at, of(text)) for at, text in left.items()]
    assert len(index) == len(left)
    kept = {position: text for position, text in left.items() if text[0] == "b"}
    if left:
        assert answers(index, where=lambda reply: reply.payload["kind"] == "b") == brute_force(encoder, kept)


def test_compacting_removes_the_data_of_what_was_deleted_and_keeps_the_positions(index, encoder):
    index.add(B)
    index.delete([0, 3, 9, 12, 13])
    before, held = answers(index), Index.open(index.store, encoder)
    assert index.compact() == 5
    assert answers(index) == answers(held) == answers(Index.open(index.store, encoder, verify=True)) == before
    stored = b"".join(path.read_bytes() for path in index.folder.rglob("*") if path.is_file())
    assert [text for text in (*A, *B) if f'"{text}"'.encode() not in stored] == ["a0", "a3", "b0", "b3", "b4"]
    assert len(list(index.folder.iterdir())) == 2
    with pytest.raises(InputError, match=r"reply 12 .*before"):
        index.delete([12])
    assert index.add(["new"]) == range(14, 15)  # and not 12
    index.delete([*range(1, 3), *range(4, 9), 10, 11, 14])
    assert index.compact() == 10
    assert index.compact() == 0  # nothing is left to do
    assert index.add(["last"]) == range(15, 16)
    assert [(position, candidate.text) for position, candidate in Index.open(index.store)] == [(15, "last")]


def test_an_index_that_was_never_compacted_is_written_as_earlier_versions_did(encoder, tmp_path):
    index = Index.build(encoder, A, tmp_path / "written", as_written=True)
    index.add(B)
    index.delete([1])
    content = json.loads((index.folder / MANIFEST).read_text())
    assert content["format"] == 1
    assert set(content) == {"kind", "format", "model", "dtype", "size", "segments", "deleted", "fingerprint"}
    assert set(content["segments"][0]) == {"name", "first", "count", "files", "longest"}
    index.compact()
    assert json.loads((index.folder / MANIFEST).read_text())["format"] == 2  # so that they say what to do


@pytest.mark.skipif(not FILES.exists(), reason="Linux tells what a process has open")
def test_an_index_of_many_additions_takes_few_open_files(index, monkeypatch):
    monkeypatch.setattr(writing, "JOINED_BYTES", 0)  # a segment for each
    for number in range(20):
        index.add([f"more {number}"])
    before = len([*FILES.iterdir()])
    assert len(Index.open(index.store, index.encoder)) == len(index)
    assert len([*FILES.iterdir()]) <= before
    opened = Index.open(index.store, index.encoder)
    assert len(opened.manifest.segments) == 21
    assert len([*FILES.iterdir()]) <= before + 3


def test_altered_files_are_not_compacted(index):
    index.delete([1])
    path = index.folder / "segment-000000000000" / "vectors.f32"
    path.write_bytes(b"xxxx" + path.read_bytes()[4:])
    for rewrite in (index.compact, lambda: index.reencode(HashEncoder(), index.folder.with_name("new"))):
        with pytest.raises(InputError, match="altered"):
            rewrite()
    assert [path.name for path in index.folder.parent.iterdir()] == ["index"]


def test_a_reader_refreshes_by_opening_only_what_is_new(index, encoder, monkeypatch):
    reader, opened, kind = Index.open(index.store, encoder), [], type(index.store)
    real = kind.open_segment
    monkeypatch.setattr(kind, "open_segment", lambda *given, **more: opened.append(given[2]) or real(*given, **more))
    assert (reader.refresh(), opened) == (False, [])
    index.add(B)
    index.delete([2])
    assert len(reader) == 9
    opened.clear()
    assert (reader.refresh(), opened) == (True, [1])
    assert (reader.refresh(), opened) == (False, [1])
    assert answers(reader) == answers(index)
    index.compact()
    opened.clear()
    assert (reader.refresh(), opened) == (True, [0])
    assert answers(reader) == answers(index)
    Index.build(HashEncoder("other"), ["theirs"], index.store, overwrite=True)
    with pytest.raises(InputError, match="but hash-model has"):
        reader.refresh()
    assert "but hash-model has" in str(reader.try_refresh())
    assert len(reader) == 13  # what it had is still open


def test_another_model_encodes_the_same_replies_at_the_same_positions(index, tmp_path):
    index.add([Candidate("with", {"id": 7})])
    index.delete([0, 4])
    other = HashEncoder("other", size=12, name="other")
    new = index.reencode(other, tmp_path / "new", batch=2)
    assert list(new) == list(index)
    assert (new.manifest.size, new.manifest.end) == (12, 10)
    assert answers(new) == brute_force(other, {position: candidate.text for position, candidate in new})
    assert new.add(["next"]) == range(10, 11)
    for folder, told in ((index.folder, "is the index itself"), (tmp_path / "new", "is an index already")):
        with pytest.raises(InputError, match=told):
            index.reencode(other, folder)


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
    bare = Index.open(index.store)
    bare.delete([1])
    assert [candidate.text for _, candidate in bare] == [text for text in A if text != "a1"]
    for forbidden in (lambda: bare.search([["a"]]), lambda: bare.add(["a"])):
        with pytest.raises(InputError, match="its model 'hash-model' is not a folder, and none of that name is installed"):
            forbidden()


class CrashError(Exception):
    pass


def crash(*_args, **_kwargs):
    raise CrashError


STORES = (FolderStore, PostgresStore)
STEPS = {
    "while encoding": lambda patch: patch.setattr(HashEncoder, "encode_responses", crash),
    "while writing": lambda patch: patch.setattr("rejoinder.stores.writing.longest_of", crash),
    "before the folder is in place": lambda patch: patch.setattr(Path, "rename", crash),
    "before the manifest is written": lambda patch: [patch.setattr(kind, "write_manifest", crash) for kind in STORES],
    "before the manifest is in place": lambda patch: patch.setattr(Path, "replace", crash),
}


@pytest.mark.parametrize(
    ("change", "step"),
    [
        pytest.param(change, step, marks=pytest.mark.folder if "in place" in step else ())
        for change, step in [
            *(("add", step) for step in STEPS),
            *(("delete", step) for step in STEPS if "manifest" in step),
            *(("compact", step) for step in STEPS if "encoding" not in step),
        ]
    ],
)
def test_a_crash_between_the_steps_of_a_change_leaves_the_old_index_valid(index, encoder, change, step):
    if change == "compact":
        index.delete([5])
    before = answers(index)
    with pytest.MonkeyPatch.context() as patch:
        STEPS[step](patch)
        with pytest.raises(CrashError):
            {"add": lambda: index.add(B), "delete": lambda: index.delete([0, 1]), "compact": index.compact}[change]()
    assert answers(index) == before
    opened = Index.open(index.store, encoder, verify=True)
    assert answers(opened) == before
    assert opened.add(["b4", "b3"]) == range(9, 11)  # what the crash left is in nobody's way
    assert answers(Index.open(index.store, encoder, verify=True)) == answers(opened)
    assert len(segments_of(index)) == 2


def test_a_crash_after_the_manifest_is_in_place_has_added_everything(index, encoder, monkeypatch):
    monkeypatch.setattr(index_module.Index, "_set", crash)
    with pytest.raises(CrashError):
        index.add(B)
    monkeypatch.undo()
    assert len(Index.open(index.store, encoder, verify=True)) == 14


def test_a_segment_that_does_not_open_is_not_added(index, encoder, monkeypatch):
    monkeypatch.setattr(type(index.store), "open_segment", crash)
    with pytest.raises(CrashError):
        index.add(B)
    monkeypatch.undo()
    assert len(Index.open(index.store, encoder, verify=True)) == 9


def test_what_a_killed_process_left_is_swept_up_by_the_next_change(index):
    left = index.folder / ".segment-000000000009.ab12cd34.part"
    left.mkdir()
    (left / "vectors.f32").write_bytes(b"half")
    index.delete([0])
    assert not left.exists()


def test_a_change_by_somebody_else_is_not_overwritten(index, encoder):
    other = Index.open(index.store, encoder)
    other.add(["theirs"])
    for change in (lambda: index.add(["mine"]), lambda: index.delete([0])):
        with pytest.raises(InputError, match="somebody else"):
            change()
    assert [candidate.text for _, candidate in Index.open(index.store, encoder)] == [*A, "theirs"]


def test_two_processes_do_not_change_an_index_at_once(index, monkeypatch):
    lock = index.folder.with_name(f".{index.folder.name}.lock")
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        monkeypatch.setattr("rejoinder.stores.store.PATIENCE", 0.1)
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
    assert not isinstance(built.store, FolderStore) or [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verify", [True, False])
def test_a_reader_sees_the_old_index_or_the_new_one(index, encoder, monkeypatch, moment, verify):
    """It is replaced after its manifest was read, before or after its files are: by one of the same size, and again."""
    replies = [[f"z{i}" for i in range(9)], ["small"]]
    kind = type(index.store)
    real = kind.open_segment

    def open_segment(*given, **options):
        if moment == "before":
            replace_it()
        opened = real(*given, **options)
        if moment == "after":
            replace_it()
        return opened

    def replace_it():
        if replies:
            monkeypatch.setattr(kind, "open_segment", real)
            Index.build(encoder, replies.pop(0), index.store, overwrite=True)
            monkeypatch.setattr(kind, "open_segment", open_segment)

    monkeypatch.setattr(kind, "open_segment", open_segment)
    found = Index.open(index.store, encoder, verify=verify)
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
    with pytest.raises(InputError, match=r"which is gone.*REJOINDER_MODEL"):
        record.locate(home / "index")
    with pytest.raises(InputError, match=r"'owner/name' is not a folder.*REJOINDER_MODEL"):  # whoever wrote it
        model_record("f", "owner/name", home / "index").locate(home / "index")
    assert model_record("f", "convert-small", home / "index").locate(home / "index") == "convert-small"
    with pytest.raises(InputError, match=r"does not say.*REJOINDER_MODEL"):
        model_record("f", "", home / "index").locate(home / "index")


def test_additions_one_by_one_leave_few_segments_and_copy_little(tmp_path, encoder, monkeypatch):
    """With a segment for each, an addition read and wrote what all others are: 0.24 ms more for each."""
    index, texts, written = Index.build(encoder, A, tmp_path / "index"), [f"new {i}" for i in range(150)], []
    kind = writing.SegmentRecord
    monkeypatch.setattr(writing, "SegmentRecord", lambda *args: noted(kind(*args), written))
    for number, text in enumerate(texts):
        seen = []
        assert index.add([text], progress=seen.append) == range(9 + number, 10 + number)
        assert seen == [1], "what is copied is not progress"
        assert len(segments_of(index)) == len(index.manifest.segments) <= 9
    assert sum(written) <= 150 * 8 + 9
    assert max(written[:100]) < 150, "no addition copies everything"
    index.delete([4, 20, 130])
    index.add(["last"])
    whole = dict(enumerate([*A, *texts, "last"]))
    for gone in (4, 20, 130):
        del whole[gone]
    for opened in (index, Index.open(index.store, encoder, verify=True)):
        assert answers(opened) == brute_force(encoder, whole)
        assert [position for position, _ in opened] == list(whole)
    index.compact()
    assert index.add(["very last"]) == range(160, 161)
    assert answers(index) == brute_force(encoder, {**whole, 160: "very last"})


def noted(found, written):
    written.append(found.count)
    return found


def test_an_addition_after_compacting_small_segments_keeps_the_positions(tmp_path, encoder):
    index = Index.build(encoder, A, tmp_path / "index")
    index.delete([0, 1, 2, 3, 4, 6, 8])
    index.compact()
    index.add(B)
    assert len(index.manifest.segments) == 1
    reopened = Index.open(index.store, encoder)
    assert [position for position, _ in reopened] == [5, 7, *range(9, 14)]
    assert answers(reopened) == answers(index)


def test_an_addition_does_not_copy_a_damaged_segment(tmp_path, encoder):
    index = Index.build(encoder, ["one"], tmp_path / "index")
    path = next(index.folder.glob("segment-*")) / "replies.jsonl"
    path.write_bytes(path.read_bytes().replace(b"one", b"two"))
    with pytest.raises(InputError, match=r"replies\.jsonl was altered"):
        index.add(["three"])


def test_what_an_addition_copies_is_bounded(tmp_path, encoder, monkeypatch):
    monkeypatch.setattr(writing, "JOINED_BYTES", 1500)  # ten replies
    index = Index.build(encoder, ["one"], tmp_path / "index")
    for number in range(40):
        index.add([f"new {number}"])
    assert max(record.count for record in index.manifest.segments) <= 16
    assert len(index.manifest.segments) <= 8
    assert index.search([["new 17"]], 1)[0][0].position == 18
