"""Two replicas on a Ray of this machine: the same answers, and a change by one of them is found by both."""

import socket
import sys

import httpx2
import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.open import open_encoder
from rejoinder.errors import MissingExtraError
from rejoinder.retrieval.index import Index
from rejoinder.serving.ray import Options, app

KEY = "k" * 32


def test_without_ray_an_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"serving on Ray needs the extra 'cluster'"):
        app(Options(index=tmp_path))


@pytest.fixture
def client(tmp_path, monkeypatch):
    pytest.importorskip("ray.serve")
    import ray
    from ray import serve

    for name, value in [("RAY_AUTH_MODE", "disabled"), ("REJOINDER_WRITE_KEY", KEY)]:
        monkeypatch.setenv(name, value)
    texts = [f"Reply number {i}." for i in range(20)]
    Index.build(
        open_encoder("convert-small"), [Candidate(text) for text in texts], tmp_path / "index"
    )
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(app(Options(index=tmp_path / "index", replicas=2)))
        with httpx2.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"authorization": f"Bearer {KEY}"}
        ) as client:
            yield client
    finally:
        serve.shutdown()
        ray.shutdown()


@pytest.mark.slow
def test_a_change_by_one_replica_is_found_by_both(client):
    added = client.post("/v1/candidates", json={"candidates": ["We open at nine."]})
    assert (added.status_code, added.json()) == (201, {"positions": [20]})
    for _ in range(20):  # Ray sends them to both
        found = client.post("/v1/replies", json={"messages": ["We open at nine."], "k": 1}).json()
        assert found["replies"][0]["text"] == "We open at nine."
    assert client.post("/admin/reload").status_code == 404
    assert client.get("/v1/about", headers={"authorization": "Bearer none"}).status_code == 401
