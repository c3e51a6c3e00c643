"""An intent classifier with its encoder as an ONNX folder, which needs PyTorch to be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rejoinder.encoders.export.onnx import onnx_folder, write_program
from rejoinder.encoders.folders import folder_bytes
from rejoinder.encoders.onnx.folder import INTENTS
from rejoinder.errors import InputError
from rejoinder.intents.classifier import IntentClassifier
from rejoinder.intents.folder import CARD, load_classifier
from rejoinder.intents.network import Network

ONNX_CARD = """
## Intents

`rejoinder.runtime.OnnxIntents(folder)` opens them. intents.onnx turns a text's vector, \
at unit length (in onnx.json
`vectors` is r for `reduction`, h for a context's, both for one behind the other), \
into `logits` of the labels and its
distance (`distances`) from the nearest intent.
"""


def export_classifier(
    folder: str | Path, output: str | Path, models: Sequence[str] = (), *, overwrite: bool = False
) -> dict[str, Any]:
    """Write an ONNX folder of a classifier and its encoder, in float32.

    `runtime.OnnxIntents` opens it. `models` is as for `load_classifier`. Returns path, intents,
    bytes and the encoder's fingerprint.
    """
    classifier = load_classifier(folder, models)
    encoder = classifier.encoder
    rejection = classifier.rejection
    if encoder.vectors is None:
        raise InputError(
            f"{folder} reads {encoder.name}; only a classifier on one of Rejoinder's dual encoders"
            " has an ONNX form"
        )
    with onnx_folder(encoder.name, output, overwrite=overwrite) as (part, manifest):
        write_program(
            _HeadAndDistance(classifier),
            {"vectors": (torch.ones(3, encoder.size), ("count",))},
            ["logits", "distances"],
            part / INTENTS,
        )
        manifest["intents"] = {
            "labels": list(classifier.labels),
            "multi_label": classifier.multi_label,
            "rejection": None if rejection is None else asdict(rejection),
            "vectors": encoder.vectors,
        }
        with (part / CARD).open("a", encoding="utf-8") as card:
            card.write(ONNX_CARD)
    written = {
        "path": str(output),
        "intents": len(classifier.labels),
        "bytes": folder_bytes(Path(output)),
    }
    return written | {"fingerprint": encoder.fingerprint}


class _HeadAndDistance(nn.Module):
    """Unit vectors (n, d) -> logits (n, K), and distances (n,) as in `Centroids.distances`."""

    def __init__(self, classifier: IntentClassifier) -> None:
        super().__init__()
        self.head = Network.of(classifier.head)
        self.mean = torch.from_numpy(classifier.centroids.mean)
        self.directions = torch.from_numpy(classifier.centroids.directions)

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """See above."""
        cosines = nn.functional.normalize(vectors - self.mean) @ self.directions.T
        return self.head(vectors), 1 - cosines.amax(dim=1)
