"""The weights bi-base: where this is installed, `rejoinder.load("bi-base")` opens them."""

from pathlib import Path

from rejoinder.models.bundled import Weights

WEIGHTS = Weights(
    fingerprint="80b930fc114ae14b109bfb2e32caaaa0a76b2712d01a08a61b744b7b679127f7",
    data_licence="MIT, BSD-3-Clause, CDLA-Sharing-1.0, Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, public domain",
    folder=Path(__file__).parent / "model",
)
