"""The weights bi-small: where this is installed, `rejoinder.load("bi-small")` opens them."""

from pathlib import Path

from rejoinder.models.bundled import Weights

WEIGHTS = Weights(
    fingerprint="0a59a1b68f2cd352d87acd922b331055c92523f7219e947c24d0d35e37ddcc28",
    data_licence="MIT, BSD-3-Clause, CDLA-Sharing-1.0, Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, public domain",
    folder=Path(__file__).parent / "model",
)
