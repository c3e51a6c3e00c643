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
