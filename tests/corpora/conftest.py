"""Shared by the tests of corpora."""

import os

import pytest


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    """There are far more files here than in earnest."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
