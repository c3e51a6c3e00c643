"""A classifier's folder: config.json, classifier.safetensors, README.md.

Its encoders are named by fingerprint.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rejoinder import __version__
from rejoinder.encoders.export import folder_bytes
from rejoinder.encoders.export_onnx import onnx_folder, write_program
from rejoinder.encoders.onnx import INTENTS
from rejoinder.encoders.open import Vectors, open_texts
from rejoinder.encoders.sentence import SentenceEncoder, concatenate
from rejoinder.errors import InputError
from rejoinder.files import Kind, atomic_folder, file_digest, is_altered, parse_json, signed
from rejoinder.intents.classifier import IntentClassifier
from rejoinder.intents.heads import SETTINGS, Centroids, head_from
from rejoinder.intents.prediction import Rejection
from rejoinder.networks.quantization import check_header
from rejoinder.retrieval.manifest import MODEL, ModelRecord, model_record
from rejoinder.settings import validate

FORMAT = 2
KIND = "rejoinder intents"
CONFIG = "config.json"
WEIGHTS = "classifier.safetensors"
CARD = "README.md"
FOLDER = Kind(
    "a classifier", CONFIG, lambda config: config["kind"] == KIND, (CONFIG, WEIGHTS, CARD)
)

ONNX_CARD = """
## Intents

`rejoinder.runtime.OnnxIntents(folder)` opens them. intents.onnx turns a text's vector, \
at unit length (in onnx.json
`vectors` is r for `reduction`, h for a context's, both for one behind the other), \
into `logits` of the labels and its
distance (`distances`) from the nearest intent.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderRecord(ModelRecord):
    """An encoder as in config.json; vectors and precision apply to Rejoinder models."""

    size: int
    vectors: Vectors | None
    precision: str | None


def save_classifier(
    classifier: IntentClassifier, folder: str | Path, *, overwrite: bool = False
) -> None:
    """Write a classifier's folder, whole or not at all."""
    centroids = {
        f"centroids.{name}": torch.from_numpy(value)
        for name, value in vars(classifier.centroids).items()
    }
    tensors = {**classifier.head.state_dict(), **centroids}
    config: dict[str, Any] = {
        "kind": KIND,
        "format": FORMAT,
        "labels": list(classifier.labels),
        "multi_label": classifier.multi_label,
        "settings": dataclasses.asdict(classifier.settings),
        "rejection": None
        if classifier.rejection is None
        else dataclasses.asdict(classifier.rejection),
        "encoders": [
            _record(encoder, Path(folder))
            for encoder in classifier.encoder.parts or (classifier.encoder,)
        ],
        "trained": classifier.trained,
        "rejoinder": __version__,
    }
    with atomic_folder(folder, FOLDER, overwrite=overwrite) as part:
        save_file(tensors, part / WEIGHTS)
        config["files"] = {WEIGHTS: file_digest(part / WEIGHTS)}
        text = json.dumps(signed(config), indent=2, ensure_ascii=False)
        (part / CONFIG).write_text(f"{text}\n", encoding="utf-8")
        (part / CARD).write_text(_card(classifier), encoding="utf-8")


def load_classifier(folder: str | Path, models: Sequence[str] = ()) -> IntentClassifier:
    """Open a classifier with its encoders.

    `models` gives the encoders' present paths, if they moved.
    """
    folder = Path(folder)
    config = read_classifier(folder)
    weights = folder / WEIGHTS
    try:
        if config["files"][WEIGHTS] != file_digest(weights):
            raise InputError(
                f"{folder}: {WEIGHTS} was altered or truncated after it was saved; copy it again"
            )
        check_header(weights)
        tensors = load_file(weights)
        centroids = Centroids(
            tensors.pop("centroids.mean").numpy(), tensors.pop("centroids.directions").numpy()
        )
        head = head_from(tensors)
        records = msgspec.convert(config["encoders"], list[EncoderRecord])
        rejection = msgspec.convert(config["rejection"], Rejection | None)
        labels = tuple(map(str, config["labels"]))
        multi_label = bool(config["multi_label"])
        settings = validate(SETTINGS, config["settings"], str(folder / CONFIG))
        trained = dict(config["trained"])
    except (OSError, LookupError, TypeError, ValueError, AttributeError, SafetensorError) as error:
        raise _damaged(folder, error) from None
    if (head.sizes[0], head.sizes[-1]) != (sum(record.size for record in records), len(labels)):
        raise InputError(
            f"{folder}: {WEIGHTS} does not fit {CONFIG}; copy the classifier's folder again"
        )
    encoder = _open_encoders(folder, records, models)
    return IntentClassifier(
        encoder, labels, head, centroids, settings, multi_label, rejection, trained
    )


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
            "rejection": None if rejection is None else dataclasses.asdict(rejection),
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
        self.head = classifier.head.eval().requires_grad_(False)
        self.mean, self.directions = map(torch.from_numpy, vars(classifier.centroids).values())

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """See above."""
        cosines = nn.functional.normalize(vectors - self.mean) @ self.directions.T
        return self.head(vectors), 1 - cosines.amax(dim=1)


def read_classifier(folder: str | Path) -> dict[str, Any]:
    """Return the configuration of a classifier's folder, without opening encoders."""
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise InputError(
            f"{folder} has no {CONFIG}, so it is not a classifier; `rejoinder intents train`"
            " writes one"
        )
    try:
        config = parse_json(path.read_text(encoding="utf-8"))
        kind = config.get("kind")
        form = config.get("format")
    except (ValueError, AttributeError) as error:
        raise _damaged(Path(folder), error) from None
    if kind != KIND:
        raise InputError(
            f"{folder} is not a classifier (a model?); `rejoinder intents train MODEL DATA -o DIR`"
            " makes one"
        )
    if form == 1:
        raise InputError(f"{path} has format 1; this version reads {FORMAT}: train it again")
    if form != FORMAT:
        raise InputError(f"{path} has format {form}; this version reads {FORMAT}: update rejoinder")
    if is_altered(config):
        raise InputError(
            f"{path} was altered after it was saved; copy the classifier's folder again"
        )
    return dict(config)


def _damaged(folder: Path, error: Exception) -> InputError:
    return InputError(
        f"{folder} is damaged ({type(error).__name__}: {error}); copy it again, or train it again"
    )


def _record(encoder: SentenceEncoder, folder: Path) -> dict[str, Any]:
    known = model_record(encoder.fingerprint, encoder.name, folder)
    return {
        **dataclasses.asdict(known),
        **{name: getattr(encoder, name) for name in ("size", "vectors", "precision")},
    }


def _open_encoders(
    folder: Path, records: Sequence[EncoderRecord], models: Sequence[str]
) -> SentenceEncoder:
    if models and len(models) != len(records):
        raise InputError(
            f"{folder} reads {len(records)} encoders, but {len(models)} were named;"
            f" {MODEL} names all, with commas between"
        )
    opened = []
    for number, record in enumerate(records):
        place = models[number] if models else record.locate(folder)
        encoder = open_texts(place, record.vectors or "r", record.precision or "auto")
        if encoder.fingerprint != record.fingerprint:
            raise InputError(
                f"{folder} was trained on an encoder other than {place} (its fingerprint is"
                f" {record.fingerprint[:12]}, not {encoder.fingerprint[:12]}); name the right one"
                f" in {MODEL}, or train again"
            )
        opened.append(encoder)
    return concatenate(opened)


def _card(classifier: IntentClassifier) -> str:
    rejection = classifier.rejection
    encoder = classifier.encoder
    refused = (
        "nothing"
        if rejection is None
        else f"texts whose {rejection.score} is above {rejection.threshold:.6g}"
    )
    encoders = "\n".join(
        f"- `{part.name}`, fingerprint `{part.fingerprint}`" for part in encoder.parts or (encoder,)
    )
    settings = "\n".join(
        f"- {name}: {value}" for name, value in dataclasses.asdict(classifier.settings).items()
    )
    facts = "\n".join(
        f"- {name.replace('_', ' ')}: {value}" for name, value in classifier.trained.items()
    )
    labels = ", ".join(f"`{label}`" for label in classifier.labels)
    return (
        f"# Intent classifier\n\n{len(classifier.labels)} intents, "
        f"{'several or none' if classifier.multi_label else 'one'} per text."
        f" Out of scope: {refused}.\n\n"
        f"## Encoders (not in this folder)\n{encoders}\n\n"
        f"## Settings\n{settings}\n\n## Training\n{facts}\n\n"
        f'## Use\n```\nrejoinder intents predict FOLDER "a text"\n```\n\n## Intents\n{labels}\n'
    )
