"""The weights bi-small: where this is installed, `rejoinder.load("bi-small")` opens them."""

from pathlib import Path

from rejoinder.encoders.bundled import Weights

WEIGHTS = Weights(
    fingerprint="b86b18e0779e54df1e6678c4c3bc1b3ee9eb5e701f791eafa4f008f7ea359a73",
    data_licence=(
        "MIT, BSD-3-Clause, CDLA-Sharing-1.0, Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, public domain"
    ),
    folder=Path(__file__).parent / "model",
)
