"""The weights bi-base: where this is installed, `rejoinder.load("bi-base")` opens them."""

from pathlib import Path

from rejoinder.models.bundled import Weights

WEIGHTS = Weights(
    fingerprint="b6b0aa2069b95d0a2e0f9b36abe5178b8b4ce5d15cf04e64c5771ac9c8bf52c9",
    data_licence="MIT, BSD-3-Clause, CDLA-Sharing-1.0, Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, public domain",
    folder=Path(__file__).parent / "model",
)
