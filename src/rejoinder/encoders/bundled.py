"""Models with a name: bundled ones, those of installed packages, and those on the Hub.

A bundled model is a quantised model folder, package data in `rejoinder/weights/NAME`, whose
fingerprint is written here. Another package adds one by an entry point of `GROUP`, the model's
name, whose value is a `Weights`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rejoinder.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP = "rejoinder.weights"  # entry points of other packages
WEIGHT_FILES = ("model.safetensors", "model-*-of-*.safetensors")  # patterns, in a model's folder
PARTS = ("first", "second")  # of a joined model: their folders in its own, and names, as NAME/first
FOLDER = Path(__file__).parents[1] / "weights"  # where the folders of `BUNDLED` are

# names for errors: of models on the Hub, of all encoders, of all rankers
HUB = "an id on the Hugging Face Hub (owner/name)"
LIBRARIES = "minilm, use, e5, or st:NAME of sentence-transformers"
ENCODERS = f"{HUB}, {LIBRARIES}"
RANKERS = f"{ENCODERS}; to rank also bm25, tfidf, sim:NAME, map:NAME or hybrid:NAME"


@dataclass(frozen=True, slots=True)
class Weights:
    """A model with a name; another one in its place is refused."""

    fingerprint: str  # see `folders.fingerprint`
    data_licence: str  # licences of what it was trained on
    folder: Path | None = None  # None: `FOLDER` / its name


DEFAULT = "bi-small"  # the model where none is named
BUNDLED: Mapping[str, Weights] = {
    "bi-small": Weights(
        fingerprint="509cad5f6204102c2ed00c8fbee9bb913e6d25212c4692957e0a335614d21ce1",
        data_licence=(
            "MIT, BSD-3-Clause, CDLA-Sharing-1.0,"
            " Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, public domain"
        ),
    ),
    "convert-small": Weights(
        fingerprint="1fac0cba313596eca381ebf288b5a819028ac7772674714a97ba3c4ee5edf370",
        data_licence=(
            "MIT, BSD-3-Clause, CDLA-Sharing-1.0,"
            " Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0, public domain"
        ),
    ),
}
"""The models of this package by their names. `workshop/bundle.py` writes folder and fingerprint."""


def entry_points(*, group: str, name: str | None = None) -> EntryPoints:
    """Return entry points of installed packages; the import that this takes is slow."""
    from importlib.metadata import entry_points as all_points

    points = all_points(group=group)
    return points if name is None else points.select(name=name)


def names() -> list[str]:
    """Return the names that a model can be opened by, those of other packages last.

    Imports none of these.
    """
    return list(
        dict.fromkeys([*BUNDLED, *sorted(point.name for point in entry_points(group=GROUP))])
    )


class UnknownModelError(InputError):
    """A name by which no model opens."""


def unknown(name: str | Path, others: str = "") -> UnknownModelError:
    """Return the error for a name by which nothing opens.

    `others` are the names that are allowed besides folders and names of models; of all encoders, if
    not given.
    """
    return UnknownModelError(
        f"no model {str(name)!r}: give a model folder (RUN/model of a training run),"
        f" {', '.join(names())}, {others or ENCODERS}"
    )


def is_name(given: str | Path) -> bool:
    """Return whether this is the name of a model that no file or folder hides."""
    name = str(given)
    if "/" in name or Path(name).exists():
        return False
    return name in BUNDLED or name in names()  # to ask all installed packages takes a while


def weights(name: str) -> Weights:
    """Return the model of a name, with its folder, which need not be there.

    An unknown name is an InputError.
    """
    if name in BUNDLED:
        return replace(BUNDLED[name], folder=FOLDER / name)
    points = list(entry_points(group=GROUP, name=name))
    if not points:
        raise unknown(name)
    if len(points) > 1:
        brought = ", ".join(sorted({_package(point) for point in points}))
        raise InputError(
            f"several packages bring a model {name!r}: {brought}; remove all but one of them"
        )
    try:
        loaded = points[0].load()
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"the package {_package(points[0])},"
            f" which brings the model {name!r}, is broken ({error}); install it again"
        ) from error
    if not isinstance(loaded, Weights) or loaded.folder is None:
        raise InputError(
            f"the package {_package(points[0])} brings the model {name!r} as {loaded!r},"
            " not as rejoinder.encoders.bundled.Weights with a folder;"
            " install a version that fits this one of rejoinder"
        )
    return loaded


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def fetch(repository: str, what: str, files: Sequence[str]) -> Path:
    """Fetch files of a repository, for errors a `what`, from the Hugging Face Hub or its cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repository, allow_patterns=list(files)))
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"no {what} {repository}, nor could the Hugging Face Hub's be fetched: {reason}"
        ) from error
