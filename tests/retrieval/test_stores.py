"""An index in PostgreSQL or Milvus does all that one in a folder does, with the same results.

The servers are real: PostgreSQL with pgvector of a package, and milvus-lite.
"""

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import numpy as np
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Candidate
from rejoinder.curation.changes import changes
from rejoinder.curation.editing import Editor
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.learning import learn_chosen
from rejoinder.curation.outcomes import Outcome, Recorder
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import BusyError, InputError
from rejoinder.retrieval.calibration import read_calibration
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import ANY_SCORE, SearchOptions
from rejoinder.stores.address import store_of
from rejoinder.stores.milvus.collections import EMBEDDED
from rejoinder.stores.milvus.store import MilvusStore
from rejoinder.stores.names import CALIBRATION
from rejoinder.stores.postgres import candidates, segments
from rejoinder.stores.postgres.errors import named_errors
from rejoinder.stores.database import segment
from rejoinder.stores.postgres.store import PostgresStore
from rejoinder.stores.store import DeniedError, UnreachableError
from tests.retrieval.conftest import HashEncoder
from tests.retrieval.test_changes import CONTEXTS, A, B
from tests.retrieval.test_examples import WordEncoder
from tests.retrieval.test_where import CHATS, PAYLOADS, VALUES
from tests.stores import segments_of

pytestmark = pytest.mark.folder  # each test names its stores
FEW = settings(max_examples=4)


@pytest.fixture(params=["postgres", "milvus"])
def place(request, tmp_path):
    """A place for an index in a database."""
    if request.param == "postgres":
        yield request.getfixturevalue("postgres_store")
        return
    pytest.importorskip("pymilvus")
    store = MilvusStore(tmp_path / "milvus", EMBEDDED)
    yield store
    store.close()


def both(tmp_path, place, replies, encoder=None):
    encoder = encoder or HashEncoder()
    return [Index.build(encoder, replies, each) for each in (tmp_path / "folder", place)]


def answers(index, k=9, **options):
    found = index.search(CONTEXTS, k, ANY_SCORE, **options)
    return [[(reply.text, reply.score, reply.position, reply.payload) for reply in replies] for replies in found]


def test_it_answers_as_a_folder_does_also_after_changes_and_a_restart(tmp_path, place):
    folder, index = both(tmp_path, place, A)
    for each in (folder, index):
        new = [Candidate(text, {"part": "b", "n": i}) for i, text in enumerate(B)]
        assert each.add(new, batch=2) == range(9, 14)
        assert each.delete([0, 10]) == 2
    for options in ({}, {"distinct": True}, {"no_repeat": True}, {"diversity": 0.4}, {"hybrid": 0.5}, {"why": True},
                    {"where": {"part": "b"}}, {"where": {"n": [2, "3"]}},
                    {"where": lambda reply: reply.payload.get("n") == 1}):  # fmt: skip
        assert answers(index, **options) == answers(folder, **options)
    assert list(index) == list(folder)
    assert (len(index), index.count({"part": "b"})) == (12, 4)
    assert index.fingerprint == folder.fingerprint, "the same replies are the same anywhere"
    again = Index.open(store_of(place.folder if isinstance(place, MilvusStore) else place), HashEncoder(), verify=True)
    assert answers(again) == answers(folder)
    with pytest.raises(InputError, match="no reply has a field 'nothing'"):
        index.search(CHATS, where={"nothing": 1})


def test_a_reader_follows_an_index_that_is_built_again(place):
    Index.build(HashEncoder(), A, place)
    reader = Index.open(MilvusStore(place.folder) if isinstance(place, MilvusStore) else place, HashEncoder())
    for texts in (A[::-1], A, B):
        Index.build(HashEncoder(), texts, place, overwrite=True)
        assert reader.refresh()
        assert [reply.text for _, reply in reader] == list(texts)


def test_a_reader_in_milvus_is_told_that_a_folder_stands_there_now(tmp_path):
    pytest.importorskip("pymilvus")
    store = MilvusStore(tmp_path / "index", EMBEDDED)
    Index.build(HashEncoder(), A, store)
    reader = Index.open(tmp_path / "index", HashEncoder())
    before = answers(reader)
    Index.build(HashEncoder(), B, tmp_path / "folder")
    shutil.rmtree(tmp_path / "index")
    (tmp_path / "folder").rename(tmp_path / "index")
    with pytest.raises(InputError, match=f"{tmp_path / 'index'} is no longer in Milvus; open it again"):
        reader.refresh()
    assert answers(reader) == before
    store.close()


def test_one_whose_replies_are_all_gone_is_compacted_and_filled_again(tmp_path, place):
    folder, index = both(tmp_path, place, A)
    for each in (folder, index):
        each.delete(range(len(A)))
        each.compact()
        assert (len(each), answers(each)) == (0, [[]] * len(CONTEXTS))
        each.add(B)
    assert answers(index) == answers(folder)
    assert index.fingerprint == folder.fingerprint


@FEW
@given(
    st.lists(st.lists(PAYLOADS, min_size=1, max_size=8), min_size=1, max_size=3), st.sets(st.integers(0, 23)),
    st.dictionaries(st.sampled_from(["team", "é"]), VALUES), st.integers(1, 9),
)  # fmt: skip
def test_changes_and_filters_are_those_of_a_folder(postgres, tmp_path_factory, parts, gone, where, k):
    law = tmp_path_factory.mktemp("law")
    folder, index = both(law, PostgresStore.at(f"{postgres}&index={law.name}"), [])
    assert index.search(CHATS) == folder.search(CHATS) == [[]] * 4
    for part in parts:
        for each in (folder, index):
            end = each.manifest.end
            each.add([Candidate(f"{end}-{i}", payload) for i, payload in enumerate(part)])
    for each in (folder, index):
        each.delete(position for position in gone if position < folder.manifest.end)
    assert index.search(CHATS, k) == folder.search(CHATS, k)
    assert list(index) == list(folder)
    if all(any(name in candidate.payload for _, candidate in index) for name in where):
        assert index.search(CHATS, k, where=where) == folder.search(CHATS, k, where=where)
        assert index.count(where) == folder.count(where)


def test_contexts_of_several_vectors(tmp_path, place):
    folder, index = both(tmp_path, place, [*A, *B])
    vectors = HashEncoder().encode_responses([*A[:3], *B[:3]]).reshape(2, 3, -1)
    queries = ContextVectors(vectors, np.array([[True, True, True], [True, False, False]]))
    assert index.search_vectors(queries, SearchOptions(k=9)) == folder.search_vectors(queries, SearchOptions(k=9))


def test_it_learns_is_edited_and_undone_as_a_folder_is(tmp_path, place):
    replies = [Candidate(f"answer {i} is here", examples=((f"question {i} asked",), (f"what about {i}",))) for i in range(12)]
    made = both(tmp_path, place, replies, WordEncoder())
    for each in made:
        log = FeedbackLog(each.store)
        recorder = Recorder(each, log)
        recorder.record([Outcome(messages=["a new wording of it"], offered=[0, 1], chosen=1, source="anna")])
        learn_chosen(each, log)
        editor = Editor(each, log)
        editor.edit(2, text="another answer")
        editor.merge(3, 4)
        change = editor.retire([5])[0]
        editor.undo(change.id)
    folder, index = made
    assert list(index) == list(folder)
    assert index.fingerprint == folder.fingerprint
    assert [(e.kind, e.undone) for e in changes(FeedbackLog(index.store).database)] == [
        (e.kind, e.undone) for e in changes(FeedbackLog(folder.store).database)
    ]
    [entry] = FeedbackLog(index.store)
    assert entry.chosen == "answer 1 is here"
    assert answers(index) == answers(folder)
    assert any("new wording" in str(reply.learned) for _, reply in index)


@pytest.mark.parametrize("few", [candidates.FEW, 0])  # rows that pass a filter, and need no graph
def test_a_large_one_is_searched_by_the_database(tmp_path, place, few, monkeypatch):
    monkeypatch.setattr(candidates, "FEW", few)
    texts = [Candidate(f"reply {i}", {"half": i % 2, "rare": i % 100}) for i in range(1500)]
    folder, index = both(tmp_path, place, texts)
    queries = [[f"reply {i}"] for i in range(0, 1500, 50)] + [["another"], ["text"]]
    record = index.approximate(0.9, queries)
    assert (record.method, record.count) == ("hnsw", 1500)
    assert record.recall >= 0.8
    index.add([Candidate("later", {"half": 1})])
    folder.add([Candidate("later", {"half": 1})])
    for each in (folder, index):
        each.delete([7, 50])
    index._segments[0] = type(index._segments[0])(*_place_of(index), 0)  # which has read nothing
    index._set(index.manifest, index._segments)
    for where in (None, {"half": 1}, {"rare": 50}, {"half": 0, "rare": [2, 4]}):
        wanted, found = (each.search(queries, 5, ANY_SCORE, where=where) for each in (folder, index))
        shares = [len({r.position for r in a} & {r.position for r in b}) / len(a) for a, b in zip(wanted, found, strict=True)]
        assert np.mean(shares) > 0.9, where
        same = {r.position: r for replies in wanted for r in replies}
        assert all(same[r.position].payload == r.payload for replies in found for r in replies if r.position in same)
        assert index.count(where) == folder.count(where)
    assert "vectors" not in vars(index._segments[0]), "the database has searched"
    [first] = index.search([["later"]], 1)[0]
    assert first.text == "later"
    index.exact()
    assert answers(index) == answers(folder)


@pytest.mark.parametrize("most", [1, 2, 9])  # connections that the server lets in
def test_a_message_in_parts_is_asked_by_several_connections(postgres_store, monkeypatch, most):
    encoder = HashEncoder()
    index = Index.build(encoder, [f"reply {i}" for i in range(300)], postgres_store)
    exact = index.snapshot()
    index.approximate(1.0, [[f"reply {i}"] for i in range(0, 300, 10)])
    vectors = encoder.encode_responses([f"reply {i}" for i in range(14)]).reshape(2, 7, -1)
    queries = ContextVectors(vectors, np.arange(7) < np.array([[7], [1]]))
    index.store._connections.close()
    connect = type(index.store._connections)._connect
    made = []

    def limited(connections):
        if len(made) == most:
            raise psycopg.OperationalError("sorry, too many clients already")
        made.append(connect(connections))
        return made[-1]

    monkeypatch.setattr(type(index.store._connections), "_connect", limited)
    options = SearchOptions(k=9)
    found = index.search_vectors(queries, options)
    monkeypatch.undo()
    assert len(made) == min(most, candidates.TOGETHER)
    assert found == exact.search_vectors(queries, options)


def _place_of(index):
    store = index.store
    place = store.collections if isinstance(store, MilvusStore) else store._connections
    return place, index.manifest


def test_a_change_is_seen_by_others_who_keep_what_they_have_until_they_look(place):
    index = Index.build(HashEncoder(), A, place)
    other = Index.open(index.store, HashEncoder())
    index.add(B)
    index.compact()
    assert (len(other), other.refresh(), len(other)) == (9, True, 14)
    assert other.refresh() is False
    assert len(segments_of(index)) == 1, "what no manifest names is gone"


def test_an_index_is_replaced_with_its_calibration_or_not_at_all(place):
    replies = [Candidate(f"answer {i} is here", examples=((f"question {i} asked",), (f"what about {i}",), (f"{i} please",)))
               for i in range(30)]  # fmt: skip
    index = Index.build(WordEncoder(), replies, place)
    had = index.store.has_file(CALIBRATION)

    def broken():
        yield "first"
        raise KeyboardInterrupt

    for wrong in (lambda: Index.build(HashEncoder(), A, place), lambda: Index.build(HashEncoder(), broken(), place, overwrite=True, batch=1)):
        with pytest.raises((InputError, KeyboardInterrupt)):
            wrong()
    assert len(Index.open(index.store, WordEncoder(), verify=True)) == 30
    assert index.store.has_file(CALIBRATION) == had
    new = Index.build(HashEncoder(), A, place, overwrite=True)
    assert len(new) == 9
    with pytest.raises(InputError, match="not calibrated"):
        read_calibration(new)


def test_replies_are_encoded_anew_from_one_store_to_another(tmp_path, place):
    index = Index.build(HashEncoder(), A, tmp_path / "old")
    index.delete([3])
    there = index.reencode(HashEncoder("other"), place)
    back = there.reencode(HashEncoder(), tmp_path / "back")
    assert list(there) == list(back) == list(index)
    assert answers(back) == answers(index)
    with pytest.raises(InputError, match="is the index itself"):
        there.reencode(HashEncoder(), there.store)


@pytest.mark.parametrize("count", [9, segments.SMALL + 9], ids=["small", "large"])
def test_altered_rows_are_named(count, postgres_store):
    index = Index.build(HashEncoder(), [f"a{n}" for n in range(count)], postgres_store)
    name = "added" if count <= segments.SMALL else index.manifest.segments[0].name
    with postgres_store._connections.connected() as connection:
        connection.execute(f"""UPDATE "{name}" SET line = replace(line, 'a3', 'a4') WHERE row = 3""")
    with pytest.raises(InputError, match=r"was altered after it was written"):
        Index.open(postgres_store, HashEncoder(), verify=True)
    with postgres_store._connections.connected() as connection:
        connection.execute(f'DELETE FROM "{name}" WHERE row = 3')
    with pytest.raises(InputError, match=f"has {count - 1} rows instead of {count}"):
        Index.open(postgres_store, HashEncoder(), verify=False)


def test_small_segments_share_a_table_until_they_get_a_graph(postgres_store):
    def names(query):
        with postgres_store._connections.connected() as connection:
            return {name for (name,) in connection.execute(query)}

    index = Index.build(HashEncoder(), [f"a{n}" for n in range(segments.SMALL + 9)], postgres_store)
    [large] = postgres_store._tables()
    index.add(["b0"])
    assert postgres_store._tables() == [large]
    assert len(postgres_store._small()) == 1
    index.add(["b1"])  # takes the other's place
    assert names("SELECT segment FROM added") == {index.manifest.segments[-1].name}
    again = Index.open(postgres_store, HashEncoder(), verify=True)
    wanted = again.search([["b1"], ["a17"]], k=3)
    index.approximate(0.9)
    assert set(postgres_store._tables()) == {each.name for each in index.manifest.segments}
    assert postgres_store._small() == []
    graphs = Index.open(postgres_store, HashEncoder())
    for found, exact in zip(graphs.search([["b1"], ["a17"]], k=3), wanted, strict=True):
        assert [reply.text for reply in found][:1] == [reply.text for reply in exact][:1]
    assert [reply.text for reply in again.search([["b1"]], k=1)[0]] == ["b1"], "it has read them"
    graphs.add(["c0"])
    assert len(postgres_store._small()) == 1
    assert Index.open(postgres_store, HashEncoder()).search([["c0"]], k=1)[0][0].text == "c0"


def test_additions_that_are_joined_pass_from_the_shared_table_to_their_own(postgres_store, monkeypatch):
    monkeypatch.setattr(segments, "SMALL", 5)
    index = Index.build(HashEncoder(), ["first"], postgres_store)
    texts = [f"text {number}" for number in range(20)]
    for text in texts:
        index.add([text])
        again = Index.open(postgres_store, HashEncoder(), verify=True)
        assert again.search([[text]], k=1)[0][0].text == text
        assert {*postgres_store._tables(), *postgres_store._small()} == {
            each.name for each in again.manifest.segments
        }
    assert postgres_store._tables()
    assert len(again) == 21


def test_an_index_without_replies_is_compacted_and_filled_again(postgres_store):
    index = Index.build(HashEncoder(), A, postgres_store)
    index.delete(range(len(A)))
    index.compact()
    assert len(index) == len(Index.open(postgres_store, HashEncoder(), verify=True)) == 0
    postgres_store.check()
    [position] = index.add(["new"])
    again = Index.open(postgres_store, HashEncoder())
    assert again.search([["new"]], k=1)[0][0].position == position


def test_what_stands_there_is_untouched_until_its_replacement_is_written(place, monkeypatch):
    replies = [Candidate(f"answer {i} is here", examples=((f"question {i} asked",), (f"what about {i}",), (f"{i} please",)))
               for i in range(300)]  # fmt: skip
    index = Index.build(WordEncoder(), replies, place)
    before = index.search([["what about 7"]], k=3)
    had = index.store.has_file(CALIBRATION)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(index.store), "write_manifest", killed)
        with pytest.raises(KeyboardInterrupt):
            Index.build(WordEncoder(), replies[:270], place, overwrite=True)
    again = Index.open(index.store, WordEncoder(), verify=True)
    assert again.search([["what about 7"]], k=3) == before
    assert again.store.has_file(CALIBRATION) == had


def test_an_error_of_the_server_undoes_the_whole_change(postgres_store):
    index = Index.build(HashEncoder(), A, postgres_store)
    with postgres_store._connections.connected() as connection:
        connection.execute("ALTER TABLE manifest ADD CONSTRAINT unmet CHECK (stamp < 0) NOT VALID")
    with pytest.raises(Exception, match="unmet"):
        index.add(["new"])
    with postgres_store._connections.connected() as connection:
        connection.execute("ALTER TABLE manifest DROP CONSTRAINT unmet")
    assert postgres_store._small() == [index.manifest.segments[0].name]
    assert index.add(["new"]) == range(len(A), len(A) + 1)
    assert Index.open(postgres_store, HashEncoder(), verify=True).search([["new"]], k=1)[0][0].text == "new"


def test_a_change_that_fails_leaves_no_rows(postgres_store, monkeypatch):
    index = Index.build(HashEncoder(), A, postgres_store)
    before = index.manifest
    monkeypatch.setattr(type(before), "to_json", lambda _: "\0")  # no text of PostgreSQL's
    with pytest.raises(Exception, match="NUL"):
        index.add(["new"])
    monkeypatch.undo()
    assert postgres_store.read_manifest() == before
    assert postgres_store._small() == [before.segments[0].name]
    assert index.add(["new"]) == range(len(A), len(A) + 1)
    assert Index.open(postgres_store, HashEncoder()).search([["new"]], k=1)[0][0].text == "new"


def test_a_password_is_in_no_name_error_or_manifest(postgres_store):
    secret = "hunter2"
    address = postgres_store.address.connection.replace("postgres@", f"postgres:{secret}@")
    store = PostgresStore.at(f"{address}&index=secret")
    index = Index.build(HashEncoder(), A, store)
    assert secret not in f"{store}{index!r}{index.facts()}{index.manifest.to_json()}{store.address!r}"
    assert pickle.loads(pickle.dumps(store)).address == store.address
    with pytest.raises(InputError) as refused:
        PostgresStore.at(f"postgresql://me:{secret}@host/db")
    assert secret not in str(refused.value)
    assert "?index=NAME" in str(refused.value)


def test_whoever_does_not_answer_is_named(tmp_path):
    store = PostgresStore.at(f"postgresql:///db?host={tmp_path}&index=x")
    with pytest.raises(UnreachableError, match="PostgreSQL does not answer"):
        Index.open(store)
    with pytest.raises(OSError, match="PostgreSQL does not answer"):
        store.stamp()


def test_a_database_that_does_not_exist_is_named(postgres_store):
    connection = postgres_store.address.connection.replace("/postgres?", "/nowhere?")
    store = PostgresStore.at(f"{connection}&index=x")
    with pytest.raises(InputError, match=r"there is no such database .*create it, or check its name"):
        Index.open(store)


def test_a_role_that_does_not_exist_is_let_in_nowhere(postgres_store):
    connection = postgres_store.address.connection.replace("postgres@", "nobody:secret@")
    with pytest.raises(InputError, match="lets nobody in so") as refused:
        Index.open(PostgresStore.at(f"{connection}&index=x"))
    assert "secret" not in str(refused.value)


def test_a_database_that_takes_no_more_connections_is_not_said_to_be_away():
    from psycopg import OperationalError

    crowded = pytest.raises(UnreachableError, match=r"takes no more connections .*max_connections")
    with crowded, named_errors("postgresql:///db?index=x"):
        raise OperationalError("connection failed: FATAL:  sorry, too many clients already")


def test_a_role_that_reads_may_search_and_not_change(postgres_store, caplog):
    index = Index.build(HashEncoder(), A, postgres_store)
    FeedbackLog(postgres_store).set(days=30)
    schema = postgres_store.address.schema
    with postgres_store._connections.connected() as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO reader')
        connection.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO reader')
    try:
        address = postgres_store.address.connection.replace("postgres@", "reader@")
        reader = Index.open(PostgresStore.at(f"{address}&index={postgres_store.address.index}"), HashEncoder())
        assert answers(reader) == answers(index)
        for change in (lambda: reader.add(B), lambda: reader.delete([0])):
            with pytest.raises(DeniedError, match="this role may not do that"):
                change()
        with pytest.raises(DeniedError, match="this role may not do that"):
            FeedbackLog(reader.store).database.check()
        assert answers(Index.open(postgres_store, HashEncoder())) == answers(index)
        index.delete([0])  # so that there is something to compact
        reader.refresh()
        with pytest.raises(InputError, match="this role may not do that"):
            reader.compact()
        assert answers(Index.open(postgres_store, HashEncoder())) == answers(index)
        assert caplog.messages == []  # psycopg would log the errors that follow, with the role's name
    finally:
        with postgres_store._connections.connected() as connection:
            connection.execute("DROP OWNED BY reader")
            connection.execute("DROP ROLE reader")


def test_a_later_schema_is_refused_with_what_to_do(postgres_store):
    Index.build(HashEncoder(), A, postgres_store)
    with postgres_store._connections.connected() as connection:
        connection.execute("UPDATE format SET number = 99")
    with pytest.raises(InputError, match="format 99; this version reads 3: update rejoinder"):
        Index.open(postgres_store)


def test_two_do_not_change_it_at_once(postgres_store, monkeypatch):
    monkeypatch.setattr("rejoinder.stores.store.PATIENCE", 0.1)
    index = Index.build(HashEncoder(), A, postgres_store)
    begun, end = threading.Event(), threading.Event()

    def hold():
        with PostgresStore(postgres_store.address).lock():
            begun.set()
            end.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    assert begun.wait(20)
    with pytest.raises(BusyError, match="is being written by another process"):
        index.add(B)
    end.set()
    holder.join()
    assert index.add(B) == range(9, 14)


def test_who_has_lost_the_lock_writes_nothing(postgres_store, monkeypatch):
    """The server has closed the connection, as when the network is cut: somebody else may write now."""
    index = Index.build(HashEncoder(), A, postgres_store)
    encode = HashEncoder.encode_responses

    def cut(self, texts):
        with psycopg.connect(postgres_store.address.connection, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = 2")
        return encode(self, texts)

    monkeypatch.setattr(HashEncoder, "encode_responses", cut)
    with pytest.raises(UnreachableError):
        index.add(B)
    monkeypatch.undo()
    assert len(Index.open(postgres_store, HashEncoder())) == 9


WRITER = """
import itertools, sys
from rejoinder.curation.editing import Editor
from rejoinder.curation.feedback import Entry, FeedbackLog
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from tests.retrieval.conftest import HashEncoder
own = sys.argv[2]
for number in itertools.count():
    index = Index.open(sys.argv[1], HashEncoder(), verify=False)
    log = FeedbackLog(index.store)
    try:
        Editor(index, log).add([[Candidate(f"{own} {number}")]])
        print("reply", number, flush=True)
    except InputError:
        pass
    log.append([Entry((f"{own} {number}",), (), None, None)])
    print("entry", number, flush=True)
"""


@pytest.mark.slow
def test_no_kill_of_two_writers_loses_what_was_acknowledged(postgres, postgres_store):
    """Fifty kills at random moments; an index that is opened then is whole, and its log agrees with it."""
    Index.build(HashEncoder(), A, postgres_store)
    address = f"{postgres}&index={postgres_store.address.index}"
    said = {}
    generator = np.random.default_rng(0)
    for turn in range(25):
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, address, f"{turn}-{i}"], stdout=subprocess.PIPE, text=True)
            for i in range(2)
        ]
        for writer in writers:
            writer.stdout.readline()
        threading.Event().wait(float(generator.uniform(0, 0.4)))
        for i, writer in enumerate(writers):
            os.kill(writer.pid, signal.SIGKILL)
            said[f"{turn}-{i}"] = writer.communicate()[0].split("\n")
        index = Index.open(postgres_store, HashEncoder(), verify=True)
        texts = {reply.text for _, reply in index}
        entries = {entry.context[0] for entry in FeedbackLog(index.store)}
        for own, lines in said.items():
            for line in filter(None, lines):
                kind, number = line.split()
                assert f"{own} {number}" in (texts if kind == "reply" else entries)
        added = {reply.text for change in changes(FeedbackLog(index.store).database, None, token=index.manifest.change)
                 for reply in change.after.values() if reply}  # fmt: skip
        assert added == texts - set(A)


@contextlib.contextmanager
def small_disk(place, user):
    """Mount a disk of 16 MB."""
    place.mkdir(exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", place], check=False).returncode:
        pytest.skip("may not mount a small disk")
    try:
        shutil.chown(place, user)
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def cluster():
    """A server whose folder is root's to change."""
    if sys.platform != "linux" or os.getuid() != 0:
        pytest.skip("needs the rights of root on Linux")
    made = pytest.importorskip("tests.postgres_cluster").Cluster
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp", ignore_cleanup_errors=True) as folder:
        server = made(f"{folder}/server", "min_parallel_table_scan_size = 0\n")
        yield server
        server.stop()


def test_a_full_disk_is_named_and_costs_nothing(cluster):
    disk = cluster.folder.with_name("disk")
    address = f"postgresql://postgres@/postgres?host={cluster.folder}&index=full"
    with small_disk(disk, cluster.user):
        index = Index.build(HashEncoder(), A, address)
        with index.store._connections.connected() as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
            connection.execute("ALTER DATABASE postgres SET default_tablespace = small")
        index.store._connections.close()
        with pytest.raises(OSError, match=r"No space left on device: 'postgresql://.*index=full'"):
            index.add(os.urandom(2000).hex() for _ in range(5000))
        assert answers(Index.open(address, HashEncoder(), verify=True)) == answers(index)
        assert index.add(B) == range(9, 14)
        assert len(segments_of(index)) == 2
        cluster.stop()


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs util-linux")
def test_graphs_are_made_where_processes_share_little_memory(cluster):
    """As in a container of Docker, which has 64 MB of it."""
    address = f"postgresql://postgres@/postgres?host={cluster.folder}&index=narrow"
    index = Index.build(HashEncoder(), [f"reply {i}" for i in range(300)], address)
    cluster.stop()
    small = "mount -t tmpfs -o size=16m,mode=1777 tmpfs /dev/shm"
    own = f'exec setpriv --reuid {cluster.user} --clear-groups "$0" "$@"'
    cluster.start(under=("unshare", "--mount", "sh", "-c", f"{small} && {own}"))
    index.approximate(0.9)
    assert "could not resize shared memory segment" in (cluster.folder / "log").read_text()
    assert Index.open(address, HashEncoder()).manifest.approximate is not None


def test_replies_with_long_values_are_searched_by_graphs_and_filtered(postgres_store):
    generator = np.random.default_rng(0)
    pages = ["".join(chr(97 + each) for each in generator.integers(0, 26, 6_000)) for _ in range(3)]
    replies = [Candidate(f"reply {number}", {"page": pages[number % 3]}) for number in range(300)]
    index = Index.build(HashEncoder(), replies, postgres_store)
    index.approximate(0.9)
    found = Index.open(postgres_store, HashEncoder())
    for number, page in enumerate(pages):
        [replies] = found.search([["reply 7"]], 300, where={"page": page}, minimum_score=-9.0, distinct=False)
        assert {reply.position % 3 for reply in replies} == {number}


def test_replies_of_a_tuned_index_are_read_many_at_once(place, monkeypatch):
    replies = [Candidate(f"reply {number}", {"n": number}) for number in range(1300)]
    Index.build(HashEncoder(), replies, place).approximate(0.9)

    def fields_of(index):
        with pytest.raises(InputError) as refused:
            index.count({"m": 1})
        return str(refused.value)

    for read in (
        lambda index: list(index) == list(enumerate(replies)),
        lambda index: next(index.candidates(5)) == (5, replies[5]),
        lambda index: index.count(lambda reply: reply.payload["n"] < 20) == 20,
        lambda index: "the fields are n" in fields_of(index),
    ):
        found = Index.open(MilvusStore(place.folder) if isinstance(place, MilvusStore) else place, HashEncoder(), verify=False)
        [own] = found._segments
        asked = []
        fetch = own._fetch
        monkeypatch.setattr(own, "_fetch", lambda rows, fetch=fetch, asked=asked: asked.append(len(rows)) or fetch(rows))
        assert read(found)
        assert asked == [1000, 300] or asked == [1000]


def test_what_postgresql_refuses_is_not_called_an_absent_server():
    from psycopg import errors

    with pytest.raises(InputError, match=r"PostgreSQL refuses it \(too long\), code 54000"), named_errors("postgresql:///db"):
        raise errors.ProgramLimitExceeded("too long")


def test_rows_of_few_filters_are_kept(postgres_store, monkeypatch):
    monkeypatch.setattr(segment, "FILTERS", 4)
    replies = [Candidate(f"reply {number}", {"customer": str(number)}) for number in range(300)]
    Index.build(HashEncoder(), replies, postgres_store).approximate(0.9)
    found = Index.open(postgres_store, HashEncoder(), verify=False)
    for _ in range(2):
        for number in range(0, 300, 30):
            [[reply]] = found.search([["reply 7"]], 1, where={"customer": str(number)}, minimum_score=-9.0)
            assert reply.position == number
    assert max(len(each._having) for each in found._segments) <= 4
