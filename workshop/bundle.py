"""Put a trained model into the package, or into one of its own that brings it.

    python -m workshop.bundle RUN/model convert-small
    python -m workshop.bundle runs/joined bi-base
    python -m workshop.bundle runs/joined bi-large --eight-bits
    python -m workshop.bundle runs/bi-small/model bi-small --eight-bits

Writes a quantised folder, of a joined model both parts, and its fingerprint:
src/rejoinder/weights/NAME and src/rejoinder/encoders/bundled.py, or those of the package
weights/NAME. The card is `workshop/model_card.py`'s.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import rejoinder
from rejoinder.cli.shell import guarded
from rejoinder.encoders import bundled, folders, joined, persistence
from rejoinder.encoders.export.folder import export_quantized
from rejoinder.encoders.export.onnx import export_onnx
from rejoinder.errors import InputError
from rejoinder.files import atomic_file, atomic_folder

LIMIT = 20_000_000
"""Bytes of a model in the package at most."""
PART_CARD = "The [card](../README.md) of the joined model describes this part.\n"
PACKAGES = Path(__file__).parents[1] / "weights"
"""Where the packages are that bring larger ones."""


def bundle(
    model: str | Path,
    name: str,
    folder: Path,
    code: Path,
    limit: int | None = LIMIT,
    *,
    linear_bits: Literal[8, 16] = 16,
) -> str:
    """Write the folder of a model and its fingerprint in the code; return the fingerprint.

    Args:
        model: its folder, quantised or not.
        name: what it is called; the code knows it already.
        folder: what to write.
        code: the file with the fingerprint.
        limit: bytes of the folder at most; None: any.
        linear_bits: of the weights of linear layers (see `export_quantized`).

    Raises:
        InputError: the code knows no such name, the model is too large, or there is no such model.
    """
    text = code.read_text(encoding="utf-8")
    entry = re.compile(
        rf'((?:"{re.escape(name)}": |WEIGHTS = )Weights\(\s*fingerprint=")[0-9a-f]*(")'
    )
    if len(entry.findall(text)) != 1:
        raise InputError(
            f"{code} has no entry of {name!r}; add one to BUNDLED, with the licences of its data"
        )
    source = folders.find(model)
    with atomic_folder(folder, folders.FOLDER, overwrite=True) as part:
        _write(source, part, linear_bits)
        size = folders.folder_bytes(part)
        if limit is not None and size > limit:
            raise InputError(
                f"{model} has {size / 1e6:.1f} MB in few bits;"
                f" at most {limit / 1e6:.0f} MB are bundled"
            )
    fingerprint = str(folders.describe(folder)["fingerprint"])
    with atomic_file(code) as part:
        part.write_text(entry.sub(rf"\g<1>{fingerprint}\g<2>", text), encoding="utf-8")
    return fingerprint


def _write(folder: Path, part: Path, linear_bits: Literal[8, 16], *, alone: bool = True) -> None:
    """Write the files of the quantised folder.

    A part of a joined model is not `alone`: it gets no ONNX programs, and keeps its bits if it is
    quantised.
    """
    config = persistence.read_config(folder)[1]
    made = part / "made"
    if config["model"]["kind"] == joined.KIND:
        for name in bundled.PARTS:
            (part / "rounded" / name).mkdir(parents=True)
            _write(folder / name, part / "rounded" / name, linear_bits, alone=False)
            (part / "rounded" / name / folders.CARD).write_text(PART_CARD, encoding="utf-8")
        first, second = (rejoinder.load(part / "rounded" / name) for name in bundled.PARTS)
        shares = config["model"]["share"], config["model"].get("opening_share")
        persistence.save_joined(made, joined.JoinedEncoder(first, second, *shares))
        # the new one names the rounded parts
        shutil.copyfile(folder / folders.CARD, made / folders.CARD)
        shutil.rmtree(part / "rounded")
    elif (
        (scheme := persistence.read_scheme(config)) is not None
        and scheme.stored
        and (scheme.linear_bits == linear_bits or not alone)
    ):
        shutil.copytree(folder, made)
    else:
        export_quantized(folder, made, linear_bits=linear_bits)
    if alone:  # an index over it opens without PyTorch
        export_onnx(made, part / "with programs")
        shutil.rmtree(made)
        made = part / "with programs"
    for path in made.iterdir():
        path.rename(part / path.name)
    made.rmdir()


def places(name: str) -> tuple[Path, Path, int | None]:
    """Return the folder of a model, the file with its fingerprint, and how large it may be."""
    if name in bundled.BUNDLED:
        return bundled.FOLDER / name, Path(bundled.__file__), LIMIT
    package = PACKAGES / name / f"rejoinder_{name.replace('-', '_')}"
    if not package.is_dir():
        raise InputError(f"{name!r} is none of {', '.join(known())}")
    return package / "model", package / "__init__.py", None


def known() -> Sequence[str]:
    """Return the names of all models that come with the project."""
    return [
        *bundled.BUNDLED,
        *sorted(path.parent.name for path in PACKAGES.glob("*/pyproject.toml")),
    ]


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m workshop.bundle",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="model folder, quantised or not")
    parser.add_argument("name", help=f"one of: {', '.join(known())}")
    parser.add_argument(
        "--eight-bits", action="store_true", help="linear layers' weights in 8 bits too, not in 16"
    )
    return parser.parse_args(words)


def main() -> None:
    """Run from the shell."""
    options = arguments()
    folder, code, limit = places(options.name)
    linear_bits: Literal[8, 16] = 8 if options.eight_bits else 16
    fingerprint = bundle(options.model, options.name, folder, code, limit, linear_bits=linear_bits)
    print(f"{folder}: {folders.folder_bytes(folder) / 1e6:.1f} MB, fingerprint {fingerprint}")


if __name__ == "__main__":
    guarded(main)()
