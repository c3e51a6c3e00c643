"""An index in Milvus, with the real milvus-lite, gives the answers of the one on disk, whatever was changed."""

import shutil
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.engine import LocalEngine
from rejoinder.errors import BusyError, InputError, MissingExtraError
from rejoinder.retrieval.index import Index
from rejoinder.stores.manifest import Manifest
from rejoinder.retrieval.options import SearchOptions
from rejoinder.retrieval.search import Cascade
from rejoinder.retrieval.milvus import Store, open_index
from tests.retrieval.conftest import HashEncoder
from tests.retrieval.test_cascade import ByLength
from tests.retrieval.test_changes import CONTEXTS, A, B, CrashError, crash
from tests.retrieval.test_counts import Faulty, one_less, one_more, other_size
from tests.retrieval.test_where import CHATS, PAYLOADS, VALUES

pytest.importorskip("pymilvus")
FEW = settings(max_examples=4)


@pytest.fixture
def make(tmp_path):
    made = []

    def build(replies=A, name="store", **options):
        made.append(Store.build(HashEncoder(), replies, tmp_path / name, **options))
        return made[-1]

    yield build
    for store in made:
        store.close()


def answers(index, k=9, **options):
    found = index.search(CONTEXTS, k, **options)
    return [[(reply.text, reply.score, reply.position, reply.payload) for reply in replies] for replies in found]


def test_it_answers_as_an_index_on_disk_does_also_after_changes_and_a_restart(make, tmp_path):
    store, index = make(), Index.build(HashEncoder(), A, tmp_path / "index")
    seen = [store.fingerprint]
    for each in (store, index):
        assert each.add([Candidate(text, {"part": "b", "n": i}) for i, text in enumerate(B)], batch=2) == range(9, 14)
        assert each.delete([0, 10]) == 2
    assert answers(store) == answers(index)
    for options in ({"distinct": True}, {"no_repeat": True}, {"diversity": 0.4}, {"minimum_score": 0.1},
                    {"where": {"part": "b"}}, {"where": {"n": [2, "3"]}}):  # fmt: skip
        assert answers(store, 3, **options) == answers(index, 3, **options)
    assert (len(store), store.count({"part": "b"}), store.manifest.store.end) == (12, 4, 14)
    assert list(store) == list(index)
    seen.append(store.fingerprint)
    store.close()
    reader = Store.open(store.folder)
    reader.encoder = HashEncoder()
    try:
        assert answers(reader) == answers(index)
        assert (reader.fingerprint, len({*seen})) == (seen[1], 2)
        assert isinstance(open_index(store.folder), Store)
        assert isinstance(open_index(index.folder), Index)
        assert len(Cascade(reader, ByLength(), rerank=4).search([["x"]], 2)[0]) == 2
        assert "milvus" in repr(reader)
    finally:
        reader.close()


@FEW
@given(
    st.lists(st.lists(PAYLOADS, min_size=1, max_size=8), min_size=1, max_size=3), st.sets(st.integers(0, 23)),
    st.dictionaries(st.sampled_from(["team", "é"]), VALUES), st.integers(1, 9),
)  # fmt: skip
def test_changes_and_filters_are_those_of_an_index_on_disk(tmp_path_factory, parts, gone, where, k):
    folder = tmp_path_factory.mktemp("law")
    store, index = Store.build(HashEncoder(), [], folder / "s"), Index.build(HashEncoder(), [], folder / "i")
    try:
        assert store.search(CHATS) == index.search(CHATS) == [[]] * 4
        for part in parts:
            for each in (store, index):
                each.add([Candidate(f"{each.manifest.end if each is index else each.record.end}-{i}", payload)
                          for i, payload in enumerate(part)])  # fmt: skip
        for each in (store, index):
            each.delete(position for position in gone if position < index.manifest.end)
        assert store.search(CHATS, k) == index.search(CHATS, k)
        assert list(store) == list(index)
        if all(any(name in candidate.payload for _, candidate in index) for name in where):
            assert store.search(CHATS, k, where=where) == index.search(CHATS, k, where=where)
            assert store.count(where) == index.count(where)
    finally:
        store.close()


def test_contexts_of_several_vectors(make, tmp_path):
    store, index = make([*A, *B]), Index.build(HashEncoder(), [*A, *B], tmp_path / "index")
    vectors = HashEncoder().encode_responses([*A[:3], *B[:3]]).reshape(2, 3, -1)
    queries = ContextVectors(vectors, np.array([[True, True, True], [True, False, False]]))
    assert store.search_vectors(queries, SearchOptions(k=9)) == index.search_vectors(queries, SearchOptions(k=9))


def test_an_engine_encodes(make, monkeypatch):
    monkeypatch.setattr("rejoinder.retrieval.encoding.batches._worker_model", lambda *_: HashEncoder())
    assert answers(make(engine=LocalEngine())) == answers(make(name="other"))


@pytest.mark.parametrize("step", ["encode", "insert", "manifest"])
def test_what_was_not_finished_is_not_found_and_goes_with_the_next_change(make, monkeypatch, step):
    store = make()
    before = answers(store)
    with monkeypatch.context() as patch:
        if step == "encode":
            patch.setattr(HashEncoder, "encode_responses", crash)
        elif step == "insert":
            real, left = store._client.insert, [1]
            patch.setattr(store._client, "insert", lambda *given: real(*given) if left.pop() else None)
        else:
            patch.setattr(Manifest, "write", crash)
        with pytest.raises((CrashError, IndexError)):
            store.add(B, batch=2)
    assert answers(store) == before
    store.close()
    store = Store.open(store.folder, HashEncoder())
    assert answers(store) == before
    assert store.add(["b4"]) == range(9, 10)
    assert [text for text, *_ in answers(store, 30)[0]].count("b4") == 1
    assert {row["position"] for row in store._ask("query", filter="position >= 0")} == {*range(10)}
    store.close()


def test_a_deletion_holds_from_the_manifest_on(make, monkeypatch):
    store = make()
    sweeps = iter([store._sweep, crash])  # before the deletion, and after it
    with monkeypatch.context() as patch:
        patch.setattr(store, "_sweep", lambda: next(sweeps)())
        with pytest.raises(CrashError):
            store.delete([0, 3])
    assert (len(store), store.count()) == (7, 7)
    assert not {0, 3} & {position for *_, position, _ in answers(store)[0]}
    assert [position for position, _ in store] == [1, 2, 4, 5, 6, 7, 8]
    with pytest.raises(InputError, match="no reply 3, or it was deleted before"):
        store.delete([3])
    assert store.manifest.deleted == ""


def test_a_first_addition_that_was_not_finished_goes_with_the_next(make, monkeypatch):
    store = make([])
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "write", crash)
        with pytest.raises(CrashError):
            store.add(B)
    assert list(store) == []
    assert store.add(A[:2]) == range(2)
    assert [candidate.text for _, candidate in store] == A[:2]


def test_builds_are_whole_and_replaced_only_when_asked_for(make, tmp_path):
    with pytest.raises(CrashError):
        make(crash() for _ in range(1))
    assert list(tmp_path.iterdir()) == []
    old = make()
    with pytest.raises(InputError, match="is an index already"):
        make(B)
    replaced = make(B, overwrite=True)
    assert [candidate.text for _, candidate in replaced] == B
    with pytest.raises(InputError, match="was built again"):
        old.refresh()
    replaced.close()
    index = Index.build(HashEncoder(), A, replaced.folder, overwrite=True)
    assert [path.name for path in index.folder.iterdir() if "db" in path.name] == []


def test_what_it_cannot_do_is_said(make, monkeypatch):
    store = make([Candidate("x", {"team": "a"})])
    for call, told in (
        (lambda: store.search([["x"]], where=bool), "not by a function"),
        (lambda: store.search([["x"]], where="team=a"), "it is a mapping"),
        (lambda: store.search([["x"]], where={"topic": 1}), "no reply has a field 'topic'"),
        (lambda: store.search([["x"]], hybrid=1.0), "hybrid search reads all replies"),
        (lambda: store.add([Candidate("long" * 20_000)]), r"reply 1 has 80,0.. bytes"),
        (lambda: store.delete([7]), "no reply 7"),
        (lambda: Index.open(store.folder), "are in Milvus"),
        (lambda: Store.open(store.folder, HashEncoder("other")), "was built with"),
        (lambda: Store.build(HashEncoder(), A, store.folder.with_name("x"), "http://127.0.0.1:9"), "no Milvus server"),
    ):
        with pytest.raises(InputError, match=told):
            call()
    other = Store.open(store.folder, HashEncoder())
    other.add(["y"])
    with pytest.raises(BusyError, match="changed by somebody else"):
        store.delete([0])
    assert (store.refresh(), store.refresh(), len(store)) == (True, False, 2)
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(MissingExtraError, match="milvus"):
        Store.open(store.folder)


def test_one_process_has_the_file(make):
    fcntl = pytest.importorskip("fcntl")
    store = make()
    store.close()
    with (store.folder / "replies.db" / "LOCK").open("w") as lock:  # as another process holds it
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="another process has it open"):
            Store.open(store.folder)
    shutil.move(store.folder, store.folder.with_name("moved"))
    moved = Store.open(store.folder.with_name("moved"), HashEncoder())
    assert len(answers(moved)[0]) == 9
    moved.close()


@pytest.mark.parametrize("wrong", [one_less, one_more, other_size])
def test_an_addition_of_a_faulty_model_leaves_the_store_as_it_was(make, wrong):
    store = make()
    before, found = store.fingerprint, answers(store)
    store.encoder = Faulty()
    store.encoder.wrong = lambda rows: wrong(rows) if len(rows) == 2 else rows
    with pytest.raises(InputError, match=r"the model gives|vectors of size"):
        store.add(B, batch=3)
    store.encoder = HashEncoder()
    assert (store.fingerprint, answers(store)) == (before, found)
    assert store.add(B) == range(9, 14)


def test_titles_and_examples_count_as_in_an_index_on_disk(tmp_path):
    from tests.retrieval.test_examples import TOPICS, WordEncoder, faq

    encoder = WordEncoder()
    store = Store.build(encoder, faq(), tmp_path / "store")
    index = Index.build(encoder, faq(), tmp_path / "index")
    asked = [[text] for known in TOPICS.values() for text in known]
    for place in (store, index):
        place.add([Candidate("It is free.", {}, "", (("what does it cost",),))])
    asked.append(["what does it cost"])
    found = [
        [[(each.position, pytest.approx(each.score, abs=1e-5)) for each in own] for own in place.search(asked, 3, -9.0)]
        for place in (store, index)
    ]
    assert found[0] == found[1]
    [[best]] = store.search([["when do you open"]], 1, why=True)
    assert (best.title, best.why.like) == ("hours", ("when do you open",))
    assert store.search([["Can you make me a sandwich?"]]) == [[]]
    store.close()
    again = Store.open(tmp_path / "store", encoder)
    assert dict(again) == dict(index)
    again.close()
