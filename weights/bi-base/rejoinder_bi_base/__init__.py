"""The weights bi-base: where this is installed, `rejoinder.load("bi-base")` opens them."""

from pathlib import Path

from rejoinder.encoders.bundled import Weights

WEIGHTS = Weights(
    fingerprint="ac6c33606b401730a4c0ec8b1db4d13ba5ef9251cc1e01344c37085555da41b6",
    data_licence=(
        "MIT, BSD-3-Clause, CDLA-Sharing-1.0, Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, CC-BY-SA-3.0,"
        " PostgreSQL, PSF-2.0, WordNet-3.0, public domain"
    ),
    folder=Path(__file__).parent / "model",
)
