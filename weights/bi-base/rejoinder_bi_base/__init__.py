"""The weights bi-base: where this is installed, `rejoinder.load("bi-base")` opens them."""

from pathlib import Path

from rejoinder.encoders.bundled import Weights

WEIGHTS = Weights(
    fingerprint="769bb02d64908a872f62ddb0af52e2bf3be01a5aa92c69ce4903dbf740b260e8",
    data_licence=(
        "MIT, BSD-3-Clause, CDLA-Sharing-1.0, Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, CC-BY-SA-3.0,"
        " PostgreSQL, PSF-2.0, WordNet-3.0, public domain"
    ),
    folder=Path(__file__).parent / "model",
)
