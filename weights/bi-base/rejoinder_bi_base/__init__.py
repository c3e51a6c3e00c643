"""The weights bi-base: where this is installed, `rejoinder.load("bi-base")` opens them."""

from pathlib import Path

from rejoinder.models.bundled import Weights

WEIGHTS = Weights(
    fingerprint="6223471221fcd302f65088f5407a54d3b95ab416c6f19eac96138903fbf6a376",
    data_licence="MIT, BSD-3-Clause, CDLA-Sharing-1.0, Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, public domain",
    folder=Path(__file__).parent / "model",
)
