"""The folder of an intent classifier: config.json, classifier.safetensors and README.md.

It names its encoders by fingerprint.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from rejoinder import __version__
from rejoinder.digests import file_digest, is_altered, signed
from rejoinder.encoders.open import Vectors, open_texts
from rejoinder.encoders.sentence import SentenceEncoder, concatenate
from rejoinder.errors import InputError
from rejoinder.files import atomic_folder
from rejoinder.folder_kinds import Kind
from rejoinder.intents.classifier import IntentClassifier
from rejoinder.intents.heads import (
    SETTINGS,
    Centroids,
    head_from,
)
from rejoinder.intents.refusal import Rejection, refused_words
from rejoinder.json_parsing import parse_json
from rejoinder.progress import counted
from rejoinder.safetensors_files import check_header
from rejoinder.settings import validate
from rejoinder.stores.models import MODEL, ModelRecord, model_record

FORMAT = 2

KIND = "rejoinder intents"

CONFIG = "config.json"

WEIGHTS = "classifier.safetensors"

CARD = "README.md"

FOLDER = Kind(
    "a classifier", CONFIG, lambda config: config["kind"] == KIND, (CONFIG, WEIGHTS, CARD)
)


@dataclass(frozen=True, kw_only=True)
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
        f"centroids.{name}": np.ascontiguousarray(value)
        for name, value in vars(classifier.centroids).items()
    }
    tensors = {**classifier.head.tensors(), **centroids}
    config: dict[str, Any] = {
        "kind": KIND,
        "format": FORMAT,
        "labels": list(classifier.labels),
        "multi_label": classifier.multi_label,
        "settings": asdict(classifier.settings),
        "rejection": None if classifier.rejection is None else asdict(classifier.rejection),
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


def load_classifier(
    folder: str | Path, models: Sequence[str] = (), device: str = "cpu"
) -> IntentClassifier:
    """Open a classifier with its encoders.

    `models` gives the encoders' present paths, if they moved; `device` is where they compute.
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
        centroids = Centroids(tensors.pop("centroids.mean"), tensors.pop("centroids.directions"))
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
    encoder = _open_encoders(folder, records, models, device)
    return IntentClassifier(
        encoder, labels, head, centroids, settings, multi_label, rejection, trained
    )


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
        **asdict(known),
        **{name: getattr(encoder, name) for name in ("size", "vectors", "precision")},
    }


def _open_encoders(
    folder: Path, records: Sequence[EncoderRecord], models: Sequence[str], device: str
) -> SentenceEncoder:
    """Open what a classifier reads, where it was or where `models` says."""
    if models and len(models) != len(records):
        raise InputError(
            f"{folder} reads {len(records)} encoders, but {len(models)} were named;"
            f" {MODEL} names all, with commas between"
        )
    opened = []
    for number, record in enumerate(records):
        source = models[number] if models else record.locate(folder)
        encoder = open_texts(source, record.vectors or "r", record.precision or "auto", device)
        if encoder.fingerprint != record.fingerprint:
            raise InputError(
                f"{folder} was trained on an encoder other than {source} (its fingerprint is"
                f" {record.fingerprint[:12]}, not {encoder.fingerprint[:12]}); name the right one"
                f" in {MODEL}, or train again"
            )
        opened.append(encoder)
    return concatenate(opened)


def _card(classifier: IntentClassifier) -> str:
    """Return the model card of a classifier."""
    rejection = classifier.rejection
    encoder = classifier.encoder
    refused = "nothing"
    if rejection is not None:
        quantity, where = refused_words(rejection.score, rejection.threshold, 6)
        refused = f"texts whose {quantity} is {where}"
    encoders = "\n".join(
        f"- `{part.name}`, fingerprint `{part.fingerprint}`" for part in encoder.parts or (encoder,)
    )
    settings = "\n".join(
        f"- {name}: {value}" for name, value in asdict(classifier.settings).items()
    )
    facts = "\n".join(
        f"- {name.replace('_', ' ')}: {value}" for name, value in classifier.trained.items()
    )
    labels = ", ".join(f"`{label}`" for label in classifier.labels)
    return (
        f"# Intent classifier\n\n{counted(len(classifier.labels), 'intent')}, "
        f"{'several or none' if classifier.multi_label else 'one'} per text."
        f" Out of scope: {refused}.\n\n"
        f"## Encoders (not in this folder)\n{encoders}\n\n"
        f"## Settings\n{settings}\n\n## Training\n{facts}\n\n"
        f'## Use\n```\nrejoinder intents predict FOLDER "a text"\n```\n\n## Intents\n{labels}\n'
    )
