"""An index that somebody else has made: it asks for nothing elsewhere, and takes no more memory than its files."""

import dataclasses
import json
import pickle
import sys
import tracemalloc

import numpy as np
import pytest

from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from rejoinder.stores.address import store_of
from rejoinder.stores.folder.store import MILVUS
from rejoinder.stores.manifest import Manifest
from rejoinder.stores.milvus import collections
from rejoinder.stores.milvus.store import MilvusStore
from rejoinder.stores.models import ModelRecord
from rejoinder.stores.runs import are_in, join_runs, read_runs, write_runs
from rejoinder.stores.store import UnreachableError
from tests.retrieval.conftest import HashEncoder


@pytest.fixture
def folder(tmp_path):
    return Index.build(HashEncoder(), [f"reply {i}" for i in range(30)], tmp_path / "index").folder


@pytest.fixture
def peak(folder):
    """Return the most memory that was taken in the test, without what is read and imported once."""
    np.unique(np.zeros(1))  # imports numpy.ma
    Index.open(folder, HashEncoder()).search([["reply 29"], ["new"]], 1)
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def change(folder, **fields):
    """Write a manifest as its maker could: with a fingerprint that fits."""
    store = store_of(folder)
    store.write_manifest(dataclasses.replace(store.read_manifest(), **fields))


def change_segment(folder, **fields):
    [record] = store_of(folder).read_manifest().segments
    change(folder, segments=(dataclasses.replace(record, **fields),))


def refused(folder, words):
    with pytest.raises(InputError, match=words) as error:
        Index.open(folder, HashEncoder())
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("deleted", [
    "0-900000000", "29-900000000", "900000000", "5,3", "3-2", "1-4,4-6", "0-4611686018427387904",
    "1-9223372036854775807", "-3", "9" * 4000, "0-" + "9" * 30, ",".join(f"{9 * i}-{9 * i + 8}" for i in range(999)),
])  # fmt: skip
def test_deleted_positions_are_those_of_replies(folder, deleted, peak):
    change(folder, deleted=deleted)
    refused(folder, r"manifest\.json is damaged")
    assert peak() < 10e6


def test_holes_take_no_memory(folder, peak):
    change_segment(folder, holes="29-900000000,900000002-3000000000")
    index = Index.open(folder, HashEncoder())
    assert index.search([["reply 29"]], 1)[0][0].position == 900_000_001
    with pytest.raises(InputError, match="was deleted before"):
        index.delete([31])
    assert index.delete([3]) == 1
    index.compact()
    assert index.add(["new"]) == range(3_000_000_001, 3_000_000_002)
    assert index.search([["new"], ["reply 4"]], 1)[0][0].position == 3_000_000_001
    assert list(Index.open(folder, HashEncoder()).vectors([4]).shape) == [1, 24]
    assert peak() < 10e6


@pytest.mark.parametrize("holes", ["31", "0-900000000,2-3", "4-900000000", "40-50"])
def test_holes_are_in_the_range_of_their_segment(folder, holes):
    change_segment(folder, first=0, holes=holes)
    if holes == "4-900000000":
        assert [position for position, _ in Index.open(folder, HashEncoder())][3:5] == [3, 900_000_001]
    else:
        refused(folder, r"manifest\.json is damaged")


@pytest.mark.parametrize("name", ["../elsewhere", "/elsewhere", "..", ".", "", "a/../../b", "C:\\x", ".hidden", "a\\b"])
def test_segments_are_in_the_folder(folder, name):
    change_segment(folder, name=name)
    refused(folder, r"manifest\.json is damaged")


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd"])
def test_files_of_segments_are_in_them(folder, name):
    [record] = store_of(folder).read_manifest().segments
    change_segment(folder, files={**record.files, name: (3, "0")})
    refused(folder, r"manifest\.json is damaged")


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("part", ["", "/vectors.f32"])
def test_a_link_out_of_the_index_is_not_followed(folder, tmp_path, part):
    [record] = store_of(folder).read_manifest().segments
    path = folder / f"{record.name}{part}"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    refused(folder, "is a link out of the index")
    (tmp_path / "link").symlink_to(folder)
    path.unlink()
    (tmp_path / "elsewhere").rename(path)
    assert len(Index.open(tmp_path / "link", HashEncoder())) == 30, "a link to the whole index is one's own"


@pytest.mark.parametrize("longest", [float("nan"), float("inf"), -1.0])
def test_the_longest_vector_has_a_length(folder, longest):
    change_segment(folder, longest=longest)
    refused(folder, r"manifest\.json is damaged")


@pytest.mark.parametrize("name", ["owner/model", "st:owner/model", "st:all-MiniLM-L6-v2", "unheard-of", "minilm/x",
                                  "convert-small/third", "../nowhere", "st:"])  # fmt: skip
def test_a_name_of_a_manifest_is_not_asked_for_elsewhere(folder, name, monkeypatch):
    change(folder, model=ModelRecord(HashEncoder().fingerprint, name))
    monkeypatch.setattr("rejoinder.encoders.open.load", lambda *_, **__: pytest.fail("it was opened"))
    index = Index.open(folder)
    with pytest.raises(InputError, match="is not a folder, and none of that name is installed; name it in REJOINDER_MODEL"):
        index.search([["reply 3"]])
    with pytest.raises(InputError, match="REJOINDER_MODEL"):
        store_of(folder).read_manifest().model.locate(folder)


@pytest.mark.parametrize("name", ["convert-small", "minilm", "use", "here", "st:here"])
def test_a_name_of_a_manifest_may_be_what_is_here(folder, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    change(folder, model=ModelRecord("0", name))
    assert store_of(folder).read_manifest().model.locate(folder) == name


def test_runs_are_joined_and_looked_up():
    rng = np.random.default_rng(0)
    for _ in range(50):
        owner = rng.integers(0, 4, 40)  # 3: in none
        parts = [np.flatnonzero(owner == number) for number in range(3)]
        joined = join_runs(map(write_runs, parts))
        assert joined == write_runs(np.flatnonzero(owner < 3))
        assert np.array_equal(are_in(np.arange(40), joined), owner < 3)
        assert np.array_equal(read_runs(joined), np.flatnonzero(owner < 3))
    assert (join_runs([]), join_runs(["", ""]), Manifest(ModelRecord("")).gone) == ("", "", "")
    assert json.dumps(join_runs(["0-4", "5"])) == '"0-5"'


@pytest.mark.folder
def test_a_file_of_replies_in_place_of_its_index_is_an_error_that_builds_one(tmp_path):
    replies = tmp_path / "faq.csv"
    replies.write_text("answer,question\nAt nine.,When?\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"faq\.csv is a file, not an index; `rejoinder index build"):
        store_of(replies).read_manifest()


@pytest.fixture
def asked(monkeypatch):
    """Return the addresses of the Milvus servers that are connected to; none is there."""
    addresses = []

    def connect(_folder, address):
        addresses.append(address)
        raise UnreachableError("no server")

    monkeypatch.setattr(collections, "connect", connect)
    monkeypatch.delenv(collections.SERVER, raising=False)
    return addresses


def name_server(folder, address, prefix="rejoinder_0123456789abcdef"):
    (folder / MILVUS).write_text(json.dumps({"address": address, "prefix": prefix}))


@pytest.mark.folder
@pytest.mark.parametrize("address", ["http://example.com:19530", "/tmp/elsewhere.db", ""])
def test_a_folder_does_not_choose_the_milvus_server_that_gets_token_and_replies(folder, address, asked, monkeypatch):
    name_server(folder, address)
    with pytest.raises(InputError, match="set MILVUS_URI to that address if you trust the server"):
        Index.open(folder, HashEncoder())
    with pytest.raises(InputError, match="set MILVUS_URI to that address"):
        Index.build(HashEncoder(), ["ours"], folder, overwrite=True)
    monkeypatch.setenv(collections.SERVER, "http://ours:19530")
    with pytest.raises(InputError, match="set MILVUS_URI to that address"):
        Index.open(folder, HashEncoder())
    assert not asked


@pytest.mark.folder
def test_a_milvus_server_that_the_user_has_named_is_asked(folder, asked, monkeypatch):
    ours = "http://ours:19530"
    name_server(folder, ours)
    named = MilvusStore(folder, ours)
    for store in (named, pickle.loads(pickle.dumps(named))):
        with pytest.raises(UnreachableError):
            Index.open(store, HashEncoder())
    monkeypatch.setenv(collections.SERVER, ours)
    with pytest.raises(UnreachableError):
        Index.open(folder, HashEncoder())
    assert asked == [ours] * 3


@pytest.mark.folder
@pytest.mark.parametrize("prefix", ["", "rejoinder_", "customers", "rejoinder_0123456789abcdef_"])
def test_collections_of_others_are_not_an_indexs(folder, prefix, asked):
    name_server(folder, "milvus", prefix)
    with pytest.raises(InputError, match=r"milvus\.json is damaged \(its prefix is not ours\)"):
        Index.open(folder, HashEncoder())
    (folder / MILVUS).write_text("[]")
    with pytest.raises(InputError, match=r"milvus\.json is damaged"):
        Index.open(folder, HashEncoder())
    assert not asked
