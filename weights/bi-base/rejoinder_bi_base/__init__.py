"""The weights bi-base: where this is installed, `rejoinder.load("bi-base")` opens them."""

from pathlib import Path

from rejoinder.models.bundled import Weights

WEIGHTS = Weights(
    fingerprint="caaa3008f589f735c21b805b6e4d6380ea63cc1544322f71592a7fa591a10d0f",
    data_licence="MIT, BSD-3-Clause, CDLA-Sharing-1.0, Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, public domain",
    folder=Path(__file__).parent / "model",
)
