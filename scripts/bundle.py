"""Put a trained model into the package: `python scripts/bundle.py RUN/model convert-small`.

Writes src/rejoinder/weights/NAME as a quantised folder of at most 20 MB, and its fingerprint into
src/rejoinder/models/bundled.py. The model card is `scripts/model_card.py`'s.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

from rejoinder.errors import InputError
from rejoinder.files import atomic_file, atomic_folder
from rejoinder.models import bundled, persistence
from rejoinder.models.export import export_quantized

LIMIT = 20_000_000
"""Bytes of a bundled model at most."""


def bundle(model: str | Path, name: str, home: Path = bundled.FOLDER, code: Path = Path(bundled.__file__)) -> str:
    """Write the folder of a bundled model and its fingerprint in the code; the fingerprint.

    Args:
        model: its folder, quantised or not.
        name: what it is called; the code knows it already.
        home: where the folders of bundled models are.
        code: the file with the fingerprints.

    Raises:
        InputError: the code knows no such name, the model is too large, or there is no such model.
    """
    text = code.read_text(encoding="utf-8")
    entry = re.compile(rf'("{re.escape(name)}": Weights\(\s*fingerprint=")[0-9a-f]*(")')
    if len(entry.findall(text)) != 1:
        raise InputError(f"{code} has no entry of {name!r}; add one to BUNDLED, with the licences of its data")
    folder = persistence.find(model)
    with atomic_folder(home / name, persistence.FOLDER, overwrite=True) as part:
        _write(folder, part)
        size = persistence.folder_bytes(part)
        if size > LIMIT:
            raise InputError(f"{model} has {size / 1e6:.1f} MB in few bits; at most {LIMIT / 1e6:.0f} MB are bundled")
    fingerprint = str(persistence.describe(home / name)["fingerprint"])
    with atomic_file(code) as part:
        part.write_text(entry.sub(rf"\g<1>{fingerprint}\g<2>", text), encoding="utf-8")
    return fingerprint


def _write(folder: Path, part: Path) -> None:
    """The files of the quantised folder."""
    source = folder
    if not persistence.is_quantized(persistence.read_config(folder)[1]):
        source = part / "rounded"
        export_quantized(folder, source)
    for name in (persistence.CONFIG, persistence.WEIGHTS, persistence.VOCABULARY, persistence.CARD):
        shutil.copyfile(source / name, part / name)
        (part / name).chmod(0o644)
    if source != folder:
        shutil.rmtree(source)


def main() -> int:
    """Run from the shell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model folder, quantised or not")
    parser.add_argument("name", help=f"one of: {', '.join(bundled.BUNDLED)}")
    given = parser.parse_args()
    try:
        fingerprint = bundle(given.model, given.name)
    except InputError as error:
        print(f"bundle: error: {error}", file=sys.stderr)
        return 2
    folder = bundled.FOLDER / given.name
    print(f"{folder}: {persistence.folder_bytes(folder) / 1e6:.1f} MB, fingerprint {fingerprint}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
