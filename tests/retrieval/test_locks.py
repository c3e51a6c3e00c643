"""One at a time changes an index; who has locked it changes it several times, and others wait."""

import asyncio
import contextlib
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.curation.changes import changes
from rejoinder.curation.editing import Editor
from rejoinder.errors import BusyError, InputError
from rejoinder.locks import lock_path
from rejoinder.retrieval.index import Index
from tests.logs import log_of
from tests.retrieval.conftest import HashEncoder


@pytest.fixture
def index(tmp_path):
    return Index.build(HashEncoder(), ["first"], tmp_path / "index")


def another(store):
    """The store as another process has it."""
    return pickle.loads(pickle.dumps(store))


@contextlib.contextmanager
def no_patience():
    """Let changes be refused at once while another has the lock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rejoinder.stores.store.PATIENCE", 0.1)
        yield


class Holder:
    """Another thread that has locked an index, until it is told to let go."""

    def __init__(self, store):
        self._store = another(store)
        self._has, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self):
        with self._store.lock():
            self._has.set()
            self._end.wait(60)

    def __enter__(self):
        self._thread.start()
        assert self._has.wait(60)
        return self

    def let_go(self):
        self._end.set()

    def __exit__(self, *_):
        self.let_go()
        self._thread.join()


def test_who_waits_has_the_lock_when_the_other_lets_go(index):
    with Holder(index.store) as holder:
        with pytest.raises(BusyError, match="being written by another process"), index.store.lock(0):
            pass
        with pytest.raises(BusyError, match="being written by another process"), index.store.lock(0.1):
            pass
        threading.Timer(0.2, holder.let_go).start()
        with index.store.lock(60):
            assert index.add(["second"]) == range(1, 2)


def test_a_change_waits_for_who_has_the_lock(index):
    with Holder(index.store) as holder:
        threading.Timer(0.5, holder.let_go).start()
        assert index.add(["second"]) == range(1, 2)


def test_a_change_that_waits_too_long_is_refused(index):
    with no_patience(), Holder(index.store), pytest.raises(BusyError, match="being written by another process"):
        index.add(["second"])


def test_who_has_the_lock_changes_the_index_as_often_as_it_likes(index):
    other = another(index.store)
    with index.store.lock():
        index.add(["second"])
        with index.store.lock():
            index.delete([0])
        with no_patience(), ThreadPoolExecutor(1) as threads, pytest.raises(BusyError):
            threads.submit(Index.open(other, HashEncoder()).add, ["third"]).result()
        with pytest.raises(InputError):
            index.delete([7])
        index.add(["fourth"])
    found = Index.open(other, HashEncoder())
    assert found.add(["fifth"]) == range(3, 4)
    assert [reply.text for _, reply in found] == ["second", "fourth", "fifth"]


def test_a_task_that_begins_while_its_thread_has_the_lock_does_not_have_it(index):
    released = threading.Event()

    def take():
        assert released.wait(60)
        with index.store.lock(0):
            pass

    async def begin_within():
        with index.store.lock():
            task = asyncio.ensure_future(asyncio.to_thread(take))
            await asyncio.sleep(0.1)  # it begins
        with Holder(index.store):
            released.set()
            with pytest.raises(BusyError):
                await task

    asyncio.run(begin_within())


def test_changes_of_many_are_made_one_after_the_other(index):
    def change(number):
        opened = Index.open(another(index.store), HashEncoder())
        with opened.store.lock(60):
            opened.refresh()
            opened.add([f"reply {number}"])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(change, range(20)))
    index.refresh()
    assert sorted(reply.text for _, reply in index) == sorted(["first", *(f"reply {n}" for n in range(20))])


def test_threads_that_change_one_index_wait_for_each_other(index):
    def change(number):
        added = index.add([f"reply {number}", f"other {number}"])
        index.edit({added[0]: f"edited {number}"})
        index.delete([added[1]])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(change, range(8)))
    texts = sorted(reply.text for _, reply in Index.open(index.store, HashEncoder()))
    assert texts == [*(f"edited {number}" for number in range(8)), "first"]


def test_changes_by_threads_stand_in_the_logs_of_their_own_editors(index):
    def change(number):
        [made] = Editor(index, log_of(index)).add([[Candidate(f"reply {number}")]])
        return number, made

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(change, range(8)))
    for number, made in results:
        [reply] = made.after.values()
        assert reply.text == f"reply {number}"
    assert len(changes(log_of(index).database)) == 8


@pytest.mark.parametrize("is_held", [False, True])
def test_damage_is_told_whether_a_lock_was_left_or_is_held(index, is_held):
    lock = lock_path(index.folder)
    vectors = index.folder / "segment-000000000000" / "vectors.f32"
    vectors.write_bytes(vectors.read_bytes()[:-4])
    with Holder(index.store) if is_held else contextlib.nullcontext(lock.touch()):
        for open_it in (another(index.store).check, lambda: Index.open(index.folder, HashEncoder())):
            start = time.monotonic()
            with pytest.raises(InputError, match=r"vectors\.f32 has 92 bytes instead of 96"):
                open_it()
            assert is_held or time.monotonic() - start < 0.5


def test_a_copy_of_an_index_that_is_changed_is_free(index):
    with index.store.lock():
        assert pickle.loads(pickle.dumps(index)).candidate(0).text == "first"
