"""The weights bi-small: where this is installed, `rejoinder.load("bi-small")` opens them."""

from pathlib import Path

from rejoinder.models.bundled import Weights

WEIGHTS = Weights(
    fingerprint="cebcba13d5eb045aa98188b79b48021d46cfd415ed76ee632d05daa7379e7c13",
    data_licence="MIT, BSD-3-Clause, CDLA-Sharing-1.0, Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, public domain",
    folder=Path(__file__).parent / "model",
)
