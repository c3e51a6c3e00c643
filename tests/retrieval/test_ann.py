"""Approximate search: the scores of the exact one, nearly all it finds, and all of it where a scan costs no more."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.stores import ann
from rejoinder.retrieval.calibration import read_calibration
from rejoinder.retrieval.encoding.confidence import Calibration
from rejoinder.retrieval.index import Index
from rejoinder.stores.folder.store import MANIFEST, FolderStore
from rejoinder.retrieval.options import SearchOptions
from tests.retrieval.conftest import HashEncoder, TableEncoder
from tests.retrieval.test_changes import CONTEXTS, A, CrashError, answers, changes, crash

pytestmark = pytest.mark.folder
faiss = pytest.importorskip("faiss")
METHODS = ["hnsw", "ivf", "scan"]
COUNT = 3000
some = st.sampled_from(METHODS)


def table(count, seed=0):
    """Unit vectors around 30 centres."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).standard_normal((30, 24))
    rows = centres[rng.integers(0, 30, count)] + 0.4 * rng.standard_normal((count, 24))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def numbered(first, end):
    return [Candidate(str(i), {"tens": str(i // 10)}) for i in range(first, end)]


@pytest.fixture
def large(tmp_path):
    """An index of many replies, and vectors near theirs."""
    encoder = TableEncoder(table(COUNT + 50))
    return Index.build(encoder, numbered(0, COUNT), tmp_path / "large"), table(60, seed=1)


@pytest.fixture
def index(tmp_path, encoder):
    return Index.build(encoder, A, tmp_path / "index")


@pytest.fixture
def never_scanned(monkeypatch):
    """Searches may not take the float32 vectors of all replies."""
    monkeypatch.setattr(ann, "SCANNED", 1000)
    return lambda: monkeypatch.setattr(ann, "search", crash)


def found(index, queries, k=30, **options):
    lists = index.search_vectors(queries, SearchOptions(k=k, distinct=False, **options))
    return [[(each.position, each.score) for each in best] for best in lists]


def exact_index(index):
    opened = Index.open(index.store, index.encoder)
    opened._state = replace(opened._state, named=None)
    return opened


def recall(wanted, got):
    return np.mean([len({*one} & {*other}) / len(one) for one, other in zip(wanted, got, strict=True)])


@pytest.mark.parametrize("method", METHODS)
def test_nearly_all_are_found_with_the_exact_scores(large, never_scanned, method):
    """Whatever is found in both searches has equal scores, or the sets of pairs would differ."""
    index, queries = large
    wanted = found(index, queries)
    record = index.approximate(0.9, [[str(i)] for i in range(0, COUNT, 30)], method=method)
    assert (record.method, record.count, record.wanted, record.measured_on) == (method, COUNT, 0.9, 50)
    assert record.recall > 0.85
    opened = Index.open(index.store, index.encoder, verify=True)
    never_scanned()
    assert recall(wanted, found(opened, queries)) > 0.85
    least = wanted[0][20][1]
    assert {*found(opened, queries[:1], minimum_score=least)[0]} <= {*wanted[0][:21]}
    exact_again = Index.open(index.store, index.encoder)
    exact_again.exact()
    assert found(exact_again, queries) == wanted
    assert not [*index.folder.glob("*.faiss")]


@pytest.mark.parametrize("method", METHODS)
def test_contexts_of_several_vectors(large, never_scanned, method):
    index, _ = large
    vectors = table(60 * 3, seed=2).reshape(60, 3, 24)
    contexts = ContextVectors(vectors, np.arange(3) <= np.arange(60)[:, None])
    wanted = found(index, contexts)
    index.encoder.encode_contexts = lambda given: vectors[: len(given)]
    index.approximate(0.9, [["0"]] * 60, method=method)
    never_scanned()
    assert recall(wanted, found(index, contexts)) > 0.8


def test_a_scan_finds_what_the_exact_search_does_and_leaves_many_contexts_to_it(large, monkeypatch):
    """Whatever the unit of the numbers, and where nothing but zeros is asked for."""
    index, queries = large
    wanted = found(index, queries)
    assert index.approximate(method="scan").recall == 1
    assert [found(index, query[None])[0] for query in queries] == wanted
    assert len(found(index, np.zeros((1, 24), np.float32))[0]) == 30
    opened = Index.open(index.store, index.encoder)
    monkeypatch.setattr(ann.FaissIndex, "file", property(crash))
    assert found(opened, queries) == wanted


def test_later_ones_are_found_and_deleted_ones_are_not(large):
    index, queries = large
    index.approximate(0.9)
    [best] = found(index, queries[:1], 10)
    index.delete([position for position, _ in best])
    index.add(numbered(COUNT, COUNT + 50))
    rest = found(index, queries[:1], 10)[0]
    assert not {*best} & {*rest}
    assert rest == found(exact_index(index), queries[:1], 10)[0]
    newest = index.encoder.table[COUNT + 7][None]
    assert found(Index.open(index.store, index.encoder), newest, 1)[0][0][0] == COUNT + 7


@pytest.mark.parametrize("method", METHODS)
def test_filters(large, never_scanned, method):
    """Where few pass, all that do are found; where many do, without a scan."""
    index, queries = large
    few, many = {"tens": ["3", "7"]}, lambda reply: int(reply.text) % 4 < 3
    wanted, of_many = found(index, queries, where=few), found(index, queries[:20], where=many)
    index.approximate(0.8, method=method)
    assert found(index, queries, where=few) == wanted
    never_scanned()
    assert recall(of_many, found(index, queries[:20], where=many)) > 0.75


@pytest.mark.parametrize("method", METHODS)
def test_where_nothing_near_passes_all_are_scanned(large, monkeypatch, method):
    index, queries = large
    far = {position for position, _ in found(index, queries[:1], COUNT)[0][-150:]}
    wanted = found(index, queries[:1], where=lambda reply: int(reply.text) in far)
    monkeypatch.setattr(ann, "cost", lambda *_: 1e-9)
    index.approximate(0.01, method=method)
    assert found(index, queries[:1], where=lambda reply: int(reply.text) in far) == wanted


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=8)
@given(
    st.lists(st.sampled_from(A), min_size=2, max_size=6),
    st.lists(st.tuples(st.just("approximate"), some) | st.tuples(st.just("exact"), some), max_size=3).flatmap(
        lambda more: changes.flatmap(lambda steps: st.permutations([*steps, *more]))
    ),
)
def test_changes_equal_an_exact_index(tmp_path_factory, method, start, steps):
    """The law: where everything is nominated, the answers are those of an exact index with the same changes."""
    folder, encoder = tmp_path_factory.mktemp("law"), HashEncoder()
    index = Index.build(encoder, start, folder / "approximate")
    plain = Index.build(encoder, start, folder / "exact")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ann, "cost", lambda *_: 1e-9)  # a scan is never as good
        patch.setattr(ann, "LEAST_EFFORT", dict.fromkeys(METHODS, 64))
        index.approximate(0.5, method=method)
        for kind, values in steps:
            if kind == "add":
                assert index.add(values) == plain.add(values)
            elif kind == "delete":
                there = {position for position, _ in plain} & {*values}
                assert index.delete(there) == plain.delete(there)
            elif kind == "exact":
                index.exact()
            elif kind == "compact":
                assert index.compact() == plain.compact()
            elif kind == "refresh":
                assert not index.refresh()
            elif kind == "approximate" and len(index) > 1:
                index.approximate(0.5, method=values)
        assert answers(index) == answers(Index.open(folder / "approximate", encoder)) == answers(plain)


def test_without_faiss_an_index_changes_but_says_what_search_needs(large, monkeypatch):
    index, queries = large
    index.approximate(0.9)
    monkeypatch.setitem(sys.modules, "faiss", None)
    opened = Index.open(index.store, index.encoder)
    opened.add(numbered(COUNT, COUNT + 1))
    opened.delete([0])
    for forbidden in (lambda: opened.search_vectors(queries), lambda: opened.approximate()):
        with pytest.raises(MissingExtraError, match=r"--method exact` .* the extra 'ann': pip install 'faiss-cpu"):
            forbidden()
    opened.exact()
    assert len(opened.search_vectors(queries, SearchOptions(k=5))[0]) == 5


@pytest.mark.parametrize("damage", [
    Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1]),
    lambda path: path.write_bytes(bytes(path.stat().st_size)),
])  # fmt: skip
def test_a_damaged_file_is_refused_and_made_again(large, damage):
    index, queries = large
    index.approximate(0.9)
    [file] = index.folder.glob("*.faiss")
    damage(file)
    with pytest.raises(InputError, match=r"is missing or damaged; .* index tune .*` makes the file again"):
        Index.open(index.store, index.encoder, verify=True)
    opened = Index.open(index.store, index.encoder)
    with pytest.raises(InputError, match="is missing or damaged"):
        opened.search_vectors(queries)
    opened.approximate(0.9)
    assert opened.search_vectors(queries)


def test_a_file_that_faiss_cannot_read_is_damaged_and_one_that_it_cannot_map_is_read(large, monkeypatch):
    """Only Linux and Windows map."""
    index, queries = large
    index.approximate(0.9)
    wanted, read, given = found(index, queries), faiss.read_index, []

    def read_whole(path, flags):
        given.append(flags)
        if flags:
            raise RuntimeError("no mapping here")
        return read(path, flags)

    monkeypatch.setattr(faiss, "read_index", read_whole)
    assert found(Index.open(index.store, index.encoder), queries) == wanted
    assert given == [faiss.IO_FLAG_MMAP_IFC, 0]
    monkeypatch.setattr(faiss, "read_index", lambda *_: read_whole("", 1))
    with pytest.raises(InputError, match="is missing or damaged"):
        found(Index.open(index.store, index.encoder), queries)


@pytest.mark.parametrize("step", [(FolderStore, "write_manifest"), (Path, "replace")])
def test_a_crash_leaves_the_index_as_it_was(index, encoder, step):
    for again in range(2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(*step, crash)
            with pytest.raises(CrashError):
                index.approximate()
        opened = Index.open(index.store, encoder, verify=True)
        assert opened.fingerprint == index.fingerprint
        assert len([*index.folder.glob("*.faiss")]) == again
        opened.approximate()
        index = opened
        assert len([*index.folder.glob("*.faiss")]) == 1
    Index.build(encoder, A, index.store, overwrite=True)
    assert not [*index.folder.glob("*.faiss")]


def test_it_is_part_of_what_an_index_is_known_by(index):
    """A calibration is of the answers that an index gives; one without such a file is known as it was before."""
    assert "approximate" not in json.loads((index.folder / MANIFEST).read_text())
    before = index.fingerprint
    Calibration(index=before, model=index.encoder.fingerprint, history=None, score_weight=1, gap_weight=1,
                intercept=0).save(index.store)  # fmt: skip
    index = Index.open(index.store, index.encoder)
    read_calibration(index)
    index.approximate()
    assert index.fingerprint == Index.open(index.store, index.encoder).fingerprint != before
    with pytest.raises(InputError, match="calibrate again"):
        read_calibration(index)


def test_what_is_asked_for_is_checked(index, tmp_path, encoder, monkeypatch):
    for wanted in (0, 1.01):
        with pytest.raises(InputError, match=f"recall is {wanted}; it goes from above 0 to 1"):
            index.approximate(wanted)
    with pytest.raises(InputError, match="9 replies and 1 contexts; it needs two of each"):
        index.approximate(contexts=CONTEXTS[:1])
    monkeypatch.setattr(ann, "MOST_IN_GRAPH", 5)
    assert index.approximate().method == "ivf"
    monkeypatch.setattr(ann, "SCANNED", 1)
    with pytest.raises(InputError, match=r"its model makes 1 vectors of a context, .*take hnsw or ivf"):
        index.approximate(method="scan")
    with pytest.raises(InputError, match="0 replies and 0 contexts"):
        Index.build(encoder, [], tmp_path / "empty").approximate()
