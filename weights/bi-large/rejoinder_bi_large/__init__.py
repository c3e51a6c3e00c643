"""The weights bi-large: where this is installed, `rejoinder.load("bi-large")` opens them."""

from pathlib import Path

from rejoinder.encoders.bundled import Weights

WEIGHTS = Weights(
    fingerprint="70f1b1a9d2ebc03d5c8952c24255751cdc03d2c1f9bcfe471d6d5a79ce4062d7",
    data_licence=(
        "MIT, BSD-3-Clause, CDLA-Sharing-1.0,"
        " Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, public domain"
    ),
    folder=Path(__file__).parent / "model",
)
