"""The weights bi-base: where this is installed, `rejoinder.load("bi-base")` opens them."""

from pathlib import Path

from rejoinder.encoders.bundled import Weights

WEIGHTS = Weights(
    fingerprint="489d1e9b4c23ca06498e14a1abd6191beadb2f44f080da1022bd596a3848fa1e",
    data_licence=(
        "MIT, BSD-3-Clause, CDLA-Sharing-1.0, Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, CC-BY-SA-3.0,"
        " PostgreSQL, PSF-2.0, WordNet-3.0, public domain"
    ),
    folder=Path(__file__).parent / "model",
)
