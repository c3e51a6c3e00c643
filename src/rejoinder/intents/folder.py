"""A classifier's folder: config.json, classifier.safetensors, README.md. Never pickle.

config.json names the encoders by fingerprint, and where they were; the encoders themselves are not in the folder.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from rejoinder import __version__
from rejoinder.errors import InputError
from rejoinder.files import atomic_folder, check_replaceable, file_digest
from rejoinder.intents.classifier import IntentClassifier
from rejoinder.intents.encoders import (
    NAMED,
    JoinedVectors,
    ModelVectors,
    SentenceEncoder,
    Vectors,
    join_encoders,
    open_encoder,
)
from rejoinder.intents.heads import head_from
from rejoinder.intents.out_of_scope import Centroids, Rejection
from rejoinder.intents.settings import settings_from
from rejoinder.retrieval.manifest import ModelRecord

FORMAT = 1
KIND = "rejoinder intents"
CONFIG, WEIGHTS, CARD = "config.json", "classifier.safetensors", "README.md"


def check_output(folder: str | Path) -> None:
    """Refuse a place where a classifier cannot be written, before any work is done for it."""
    check_replaceable(folder, WEIGHTS)


def save_classifier(classifier: IntentClassifier, folder: str | Path) -> None:
    """Write a classifier's folder, whole or not at all; an earlier one there is replaced.

    Raises:
        InputError: something else is there.
    """
    tensors = classifier.head.tensors() | {
        "centroids.mean": torch.from_numpy(classifier.centroids.mean).clone(),
        "centroids.directions": torch.from_numpy(classifier.centroids.directions).clone(),
    }
    with atomic_folder(folder, marker=WEIGHTS) as part:
        save_file(tensors, part / WEIGHTS)
        config = {
            "kind": KIND,
            "format": FORMAT,
            "labels": list(classifier.labels),
            "several": classifier.several,
            "settings": dataclasses.asdict(classifier.settings),
            "rejection": None if classifier.rejection is None else dataclasses.asdict(classifier.rejection),
            "encoders": [_record(encoder, Path(folder)) for encoder in _parts(classifier.encoder)],
            "trained": classifier.trained,
            "rejoinder": __version__,
            "files": {WEIGHTS: file_digest(part / WEIGHTS)},
        }
        text = json.dumps(config, indent=2, ensure_ascii=False)
        (part / CONFIG).write_text(f"{text}\n", encoding="utf-8")
        (part / CARD).write_text(card(classifier), encoding="utf-8")


def load_classifier(folder: str | Path, models: Sequence[str] = ()) -> IntentClassifier:
    """Open a classifier with its encoder.

    Args:
        folder: what `save_classifier` wrote.
        models: where the encoders are now, in their order; empty: where they were.

    Raises:
        InputError: there is no such classifier, it is damaged, or an encoder is gone or another one.
    """
    folder = Path(folder)
    config = read_classifier(folder)
    tensors = _tensors(folder, config)
    try:
        records = [dict(record) for record in config["encoders"]]
        head = head_from({name: value for name, value in tensors.items() if name.startswith("layers.")})
        centroids = Centroids(tensors["centroids.mean"].numpy(), tensors["centroids.directions"].numpy())
        rejection = None if config["rejection"] is None else Rejection(**config["rejection"])
        labels, several = tuple(map(str, config["labels"])), bool(config["several"])
        settings, trained = settings_from(config["settings"]), dict(config["trained"])
        sizes = (int(sum(record["size"] for record in records)), len(labels))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder, error) from None
    if (head.sizes[0], head.sizes[-1]) != sizes:
        raise InputError(f"{folder}: {WEIGHTS} does not fit {CONFIG}; copy the classifier's folder again")
    encoder = _open_encoders(folder, records, models)
    return IntentClassifier(encoder, labels, head, centroids, settings, several, rejection, trained)


def read_classifier(folder: str | Path) -> dict[str, Any]:
    """The configuration of a classifier's folder, without opening encoders.

    Raises:
        InputError: there is no classifier, or it is of a later version or damaged.
    """
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise InputError(f"{folder} has no {CONFIG}, so it is no classifier; `rejoinder intents train` writes one")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        kind, form = config.get("kind"), config.get("format")
    except (ValueError, AttributeError) as error:
        raise _damaged(Path(folder), error) from None
    if kind != KIND:
        raise InputError(f"{folder} is no classifier (a model?); `rejoinder intents train MODEL DATA -o DIR` makes one")
    if form != FORMAT:
        raise InputError(f"{path} has format {form}; this version reads format {FORMAT}: update rejoinder")
    return dict(config)


def _tensors(folder: Path, config: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    path = folder / WEIGHTS
    if not path.is_file():
        raise InputError(f"{folder}: {WEIGHTS} is missing; copy the whole folder again")
    try:
        if config["files"][WEIGHTS] != file_digest(path):
            raise InputError(f"{folder}: {WEIGHTS} was altered or cut short after it was saved; copy it again")
        return dict(load_file(path))
    except (KeyError, TypeError, SafetensorError) as error:
        raise _damaged(folder, error) from None


def _damaged(folder: Path, error: Exception) -> InputError:
    return InputError(f"{folder} is damaged ({type(error).__name__}: {error}); copy it again, or train it again")


def _parts(encoder: SentenceEncoder) -> tuple[SentenceEncoder, ...]:
    return encoder.parts if isinstance(encoder, JoinedVectors) else (encoder,)


def _record(encoder: SentenceEncoder, folder: Path) -> dict[str, Any]:
    name = encoder.name
    known = ModelRecord.of(encoder.fingerprint, name, folder)
    if name in NAMED:  # a folder of that name may lie around
        known = ModelRecord(encoder.fingerprint, name)
    ours = {"vectors": encoder.vectors, "precision": encoder.precision} if isinstance(encoder, ModelVectors) else {}
    return {**dataclasses.asdict(known), "size": encoder.size, "vectors": None, "precision": None, **ours}


def _open_encoders(folder: Path, records: Sequence[dict[str, Any]], models: Sequence[str]) -> SentenceEncoder:
    if models and len(models) != len(records):
        raise InputError(f"{folder} reads {len(records)} encoders, but {len(models)} were named with --model")
    opened = []
    for number, values in enumerate(records):
        record = ModelRecord(**{name: values[name] for name in ("fingerprint", "name", "path", "relative")})
        vectors: Vectors = values["vectors"] or "r"
        if vectors not in get_args(Vectors):
            raise _damaged(folder, ValueError(f"vectors {vectors!r}"))
        place = models[number] if models else record.locate(folder)
        encoder = open_encoder(place, vectors, values["precision"] or "auto")
        if encoder.fingerprint != record.fingerprint:
            raise InputError(
                f"{folder} was trained on another encoder than {place} (its fingerprint is {record.fingerprint[:12]}, "
                f"not {encoder.fingerprint[:12]}); name the right one with --model, or train again"
            )
        opened.append(encoder)
    return join_encoders(opened)


def card(classifier: IntentClassifier) -> str:
    """The card, in Markdown."""
    rejection = classifier.rejection
    refused = "nothing" if rejection is None else f"texts whose {rejection.score} is above {rejection.threshold:.6g}"
    encoders = "\n".join(f"- `{part.name}`, fingerprint `{part.fingerprint}`" for part in _parts(classifier.encoder))
    settings = "\n".join(f"- {name}: {value}" for name, value in dataclasses.asdict(classifier.settings).items())
    facts = "\n".join(f"- {name.replace('_', ' ')}: {value}" for name, value in classifier.trained.items())
    labels = ", ".join(f"`{label}`" for label in classifier.labels)
    return (
        f"# Intent classifier\n\n{len(classifier.labels)} intents, "
        f"{'several or none' if classifier.several else 'one'} per text. Out of scope: {refused}.\n\n"
        f"## Encoders (not in this folder)\n{encoders}\n\n## Settings\n{settings}\n\n## Training\n{facts}\n\n"
        f"## Use\n```\nrejoinder intents predict FOLDER \"a text\"\n```\n\n## Intents\n{labels}\n"
    )
