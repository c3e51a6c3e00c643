"""The model of an index: how it is found again, and told from others."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rejoinder.encoders import bundled
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.errors import InputError, shown

MODEL = "REJOINDER_MODEL"  # variable of the command: where a model is now
_NAME_IT = f"name its folder in {MODEL} (in Python: pass the model)"


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """The model whose vectors an index holds.

    Its fingerprint decides; its name is as it was given.
    """

    fingerprint: str
    name: str = ""
    path: str = ""  # where its folder was when the index was built; empty if it was not a folder
    relative: str = ""  # the same as seen from the index, so that both can move together

    def locate(self, index: object) -> str:
        """Find where the model of an index, a folder or another store, can be opened now."""
        if self.relative and (folder := Path(str(index), self.relative)).is_dir():
            return str(folder)
        if self.path and Path(self.path).is_dir():
            return str(Path(self.path))
        if self.path:
            raise InputError(f"{index}: its model was {self.path}, which is gone; {_NAME_IT}")
        if not self.name:
            raise InputError(f"{index}: it does not say where its model is; {_NAME_IT}")
        if not _is_local(self.name):
            raise InputError(
                f"{index}: its model {self.name!r} is not a folder, and none of that name "
                f"is installed; name it in {MODEL} if it may be fetched from elsewhere"
            )
        return self.name


def _is_local(name: str) -> bool:
    """Return whether a model is on this machine.

    An index does not decide what is fetched.
    """
    from rejoinder.encoders.open import LIBRARY_NAMES

    owner, _, part = name.partition("/")
    named = bundled.is_name(name) or (part in bundled.PARTS and bundled.is_name(owner))
    folder = name.removeprefix("st:")
    return named or name in LIBRARY_NAMES or (folder != "" and Path(folder).is_dir())


def model_record(fingerprint: str, name: str, index: Path | None) -> ModelRecord:
    """Describe a model for the index that will stand at `index`; None: in no folder."""
    from rejoinder.encoders.open import is_library_name

    # there may be a folder of an encoder's name
    if not name or is_library_name(name) or not Path(name).is_dir():
        return ModelRecord(fingerprint, name)
    path = Path(name).resolve()
    if index is None:
        return ModelRecord(fingerprint, name, str(path))
    try:
        relative = os.path.relpath(path, index.resolve())
    except ValueError:  # another drive
        relative = ""
    return ModelRecord(fingerprint, name, str(path), relative)


def check_encoder(encoder: object) -> DualEncoder:
    """Return a model that encodes replies; refuse anything else."""
    if not isinstance(encoder, DualEncoder):
        raise InputError(
            "an index needs a model that encodes replies, as rejoinder.load opens; "
            f"given: {shown(encoder)}"
        )
    return encoder


def check_model(index: object, record: ModelRecord, encoder: DualEncoder) -> None:
    """Refuse a model that an index was not built with."""
    if record.fingerprint != encoder.fingerprint:
        built = f"the model {record.name or '(unnamed)'} of fingerprint {record.fingerprint[:12]}"
        actual = f"{encoder.name or 'the given model'} has {encoder.fingerprint[:12]}"
        raise InputError(
            f"{index} was built with {built}, but {actual}; use that model ({MODEL}=FOLDER), or"
            " encode the replies with this one (`rejoinder index reencode`)"
        )
