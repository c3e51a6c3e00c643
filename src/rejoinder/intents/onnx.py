"""A classifier in an ONNX folder, which needs only NumPy and onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rejoinder.arrays import unit_rows
from rejoinder.documents import Described
from rejoinder.encoders.onnx.encoder import open_folder
from rejoinder.encoders.onnx.folder import INTENTS, locate, read_manifest
from rejoinder.encoders.onnx.program import open_program
from rejoinder.encoders.open import text_vectors
from rejoinder.errors import InputError
from rejoinder.intents.prediction import Prediction, check_texts, decide
from rejoinder.intents.refusal import Rejection
from rejoinder.text.messages import clean_messages


class OnnxIntents(Described):
    """Classifies as `rejoinder.intents.folder.load_classifier` does in float32.

    Args:
        folder: the output of `rejoinder intents export`.
        threads: processor threads to use; None leaves onnxruntime's own choice.

    Raises:
        InputError: as for `OnnxEncoder`, or the folder holds no classifier.
    """

    def __init__(self, folder: str | Path, threads: int | None = None) -> None:
        self.folder = locate(folder)
        self.threads = threads
        manifest = read_manifest(self.folder)
        self.encoder = open_folder(folder, threads, "fp32", manifest)
        if (known := manifest.get("intents")) is None:
            raise InputError(
                f"{folder} is a model without intents;"
                " `rejoinder intents export CLASSIFIER` writes both"
            )
        if "multi_label" not in known:
            raise InputError(
                f"{folder} was written by an earlier version of Rejoinder;"
                " export the classifier again"
            )
        self.labels: tuple[str, ...] = tuple(known["labels"])
        self.multi_label: bool = known["multi_label"]  # a text may have any number of intents
        self.rejection = None if known["rejection"] is None else Rejection(**known["rejection"])
        self._vectors = known["vectors"]
        self._program = open_program(self.folder / INTENTS, threads)

    def __reduce__(self) -> tuple[type[OnnxIntents], tuple[Path, int | None]]:
        return OnnxIntents, (self.folder, self.threads)

    def facts(self) -> Mapping[str, object]:
        """Return the text that shows the classifier."""
        return {
            "folder": self.encoder.name,
            "intents": len(self.labels),
            "multi_label": self.multi_label,
        }

    def predict(self, texts: Sequence[str]) -> list[Prediction]:
        """Return the intents of texts, cleaned as messages; a blank text is an InputError."""
        check_texts(texts)
        vectors = unit_rows(text_vectors(self.encoder, clean_messages(texts), self._vectors))
        logits, distances = self._program(vectors=vectors)
        return decide(logits, distances, self.labels, self.multi_label, self.rejection)
