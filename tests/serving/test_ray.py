"""Two replicas on a Ray of this machine: the same answers, and a change by one of them is found by both."""

import socket
import sys
import time

import httpx2
import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.open import open_encoder
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.retrieval.index import Index
from rejoinder.serving.ray import Options, app

KEY = "k" * 32


def test_without_ray_an_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"serving on Ray needs the extra 'cluster'"):
        app(Options(index=tmp_path))


def test_an_address_of_a_database_without_an_index_is_refused():
    pytest.importorskip("psycopg")
    pytest.importorskip("ray.serve")
    with pytest.raises(InputError, match=r"postgresql://HOST/DB\?index=NAME"):
        app(Options(index="postgresql://somewhere/db"))


@pytest.fixture(params=["folder", "postgres"])
def place(request, tmp_path):
    """Where the index is: a folder, or a real server."""
    if request.param == "folder":
        return tmp_path / "index"
    return f"{request.getfixturevalue('postgres')}&index=on_ray"


@pytest.fixture
def client(place, monkeypatch):
    pytest.importorskip("ray.serve")
    import ray
    from ray import serve

    for name, value in [("RAY_AUTH_MODE", "disabled"), ("REJOINDER_WRITE_KEY", KEY)]:
        monkeypatch.setenv(name, value)
    texts = [f"Reply number {i}." for i in range(20)]
    Index.build(open_encoder("convert-small"), [Candidate(text) for text in texts], place)
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(app(Options(index=place, replicas=2)))
        with httpx2.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"authorization": f"Bearer {KEY}"}
        ) as client:
            yield client
    finally:
        serve.shutdown()
        ray.shutdown()


@pytest.mark.slow
def test_a_change_by_one_replica_is_found_by_both(client, place):
    added = client.post("/v1/candidates", json={"candidates": ["We open at nine."]})
    assert (added.status_code, added.json()) == (201, {"positions": [20]})
    # in a folder a change is seen at once, in a database by all within a second
    deadline = time.monotonic() + ("postgresql" in str(place))
    right = 0
    while right < 20:  # Ray sends them to both
        found = client.post("/v1/replies", json={"messages": ["We open at nine."], "k": 1}).json()
        if found["replies"][0]["text"] == "We open at nine.":
            right += 1
        else:
            assert time.monotonic() < deadline
            right = 0
            time.sleep(0.05)
    assert client.post("/admin/reload").status_code == 404
    assert client.get("/v1/about", headers={"authorization": "Bearer none"}).status_code == 401
