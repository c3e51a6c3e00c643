"""Property tests draw the same examples on every machine, however slow; HYPOTHESIS_PROFILE=explore draws new ones.

Processes that test side by side use one thread each: threads of several that wait for the same core
cost far more.
"""

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
if "PYTEST_XDIST_WORKER" in os.environ:  # read when torch is imported
    os.environ.setdefault("OMP_NUM_THREADS", "1")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it


pytest_plugins = ["tests.stores"]


def pytest_addoption(parser):
    parser.addoption(
        "--store", default="folder", help="where indexes are kept: folder, postgres, milvus, or a Milvus server's address"
    )


def pytest_configure(config):
    chosen = config.getoption("--store")
    if chosen not in ("folder", "postgres", "milvus") and not chosen.startswith(("http://", "https://")):
        raise pytest.UsageError(f"--store {chosen}: give folder, postgres, milvus or http://HOST:PORT of Milvus")
    if chosen != "folder":  # a build takes a tenth of a second there, on a Milvus server five
        examples = 5 if chosen in ("postgres", "milvus") else 2
        settings.register_profile("few", derandomize=True, deadline=None, max_examples=examples)
        settings.load_profile("few")


def pytest_runtest_setup(item):
    chosen = item.config.getoption("--store")
    if chosen != "folder" and item.get_closest_marker("folder"):
        pytest.skip(f"looks at the files of a folder, not at {chosen}")


@pytest.fixture(autouse=True)
def _no_other_weights(monkeypatch):
    """Names of models are the same wherever another package with weights is installed."""
    monkeypatch.setattr("rejoinder.encoders.bundled.entry_points", lambda **_: [])


@pytest.fixture(autouse=True, scope="session")
def _no_cache():
    """Encoders of tests share names and fingerprints; nothing is kept in the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "rejoinder.retrieval.encoding.background.cached_vectors", lambda _, compute: compute()
        )
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk():
    """No test cuts the power, and a disk that is waited for thousands of times takes minutes.

    Processes that a test starts do wait for it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # which refuses a file that is closed, too
        yield
