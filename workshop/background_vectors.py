"""Write the vectors of background messages that come with the bundled models.

python -m workshop.background_vectors    # after bundling weights, or new messages
"""

from __future__ import annotations

from rejoinder.encoders.bundled import BUNDLED, FOLDER
from rejoinder.encoders.open import open_encoder
from rejoinder.retrieval.encoding.background import COMPUTED, file_name, write_bundled
from rejoinder.text.background import background


def main() -> None:
    """Replace the files of all bundled models."""
    for path in FOLDER.glob("background-*.np*"):
        path.unlink()
    for name in BUNDLED:
        encoder = open_encoder(name, precision="fp32")
        for kind, compute in COMPUTED.items():
            path = FOLDER / f"{file_name(kind, encoder.fingerprint, background())}.npz"
            write_bundled(path, compute(encoder))
            print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
