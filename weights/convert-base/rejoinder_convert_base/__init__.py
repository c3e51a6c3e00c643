"""The weights convert-base: where this is installed, `rejoinder.load("convert-base")` opens them."""

from pathlib import Path

from rejoinder.models.bundled import Weights

WEIGHTS = Weights(
    fingerprint="2aa428938ea86b5fefd318426a23bcfaa1e33a5dc8c2ecafd1de4cfc528453d1",
    data_licence="MIT, BSD-3-Clause, CDLA-Sharing-1.0, Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, public domain",
    folder=Path(__file__).parent / "model",
)
