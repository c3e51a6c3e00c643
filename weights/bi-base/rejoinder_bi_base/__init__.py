"""The weights bi-base: where this is installed, `rejoinder.load("bi-base")` opens them."""

from pathlib import Path

from rejoinder.encoders.bundled import Weights

WEIGHTS = Weights(
    fingerprint="0180bfe3050b340d3eb7b2d220d0e391d26547903f787c716f4ba7f71d1ec447",
    data_licence=(
        "MIT, BSD-3-Clause, CDLA-Sharing-1.0, Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, public domain"
    ),
    folder=Path(__file__).parent / "model",
)
