"""`rejoinder desk`: what it refuses before it listens."""

import pytest


@pytest.fixture
def without_keys(monkeypatch):
    monkeypatch.delenv("REJOINDER_DESK_TOKEN", raising=False)
    monkeypatch.delenv("REJOINDER_DESK_SECRET", raising=False)


@pytest.mark.usefixtures("without_keys")
def test_what_cannot_work_is_refused(refused, tmp_path):
    index = tmp_path / "index"
    refused("desk", index, "--desk", "file:///etc", said="not an address of a desk")
    refused("desk", index, "--desk", "https://desk.example", said="REJOINDER_DESK_TOKEN")
    generic = ("--kind", "generic", "--desk", "https://desk.example")
    refused("desk", index, *generic, "--host", "0.0.0.0", said="REJOINDER_DESK_SECRET")
    refused("desk", index, *generic, said="index")
