"""Make the virtual environment that the verbs of the Makefile run in.

    python3 scripts/environment.py dev train   # .venv has these extras afterwards

A second call costs nothing: for every extra a stamp in .venv holds the hash of what was asked for,
so a changed requirement or pin installs again and anything else does not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

import install_torch
import quiet_pip

ROOT = Path(__file__).parent.parent


def fingerprint(root: Path, extra: str) -> str:
    """Hash of all that decides what an extra installs: requirements, entry points and pins."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    extras = project["optional-dependencies"]
    if extra not in extras:
        sys.exit(f"there is no extra '{extra}' in pyproject.toml; there are: {', '.join(extras)}")
    entries = [project["scripts"], project.get("entry-points")]
    relevant = [project["dependencies"], extras[extra], *entries, settings["build-system"]]
    pins = (root / "constraints.txt").read_bytes()
    return hashlib.sha256(json.dumps(relevant).encode() + pins).hexdigest()


def stale_extras(root: Path, venv: Path, extras: Sequence[str]) -> dict[str, str]:
    """Return the extras that are not installed as declared, each with its expected fingerprint."""
    wanted = {extra: fingerprint(root, extra) for extra in extras}
    return {
        extra: print_ for extra, print_ in wanted.items() if _read(_stamp(venv, extra)) != print_
    }


def create(venv: Path) -> Path:
    """Make the environment if there is none; return its interpreter."""
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if python.is_symlink() and not python.exists():
        sys.exit(
            f"The Python that {venv.name} was made with is gone;"
            " run: make clean, and then the same again"
        )
    if not python.exists():
        print(f"Creating {venv.name} with Python {sys.version.split()[0]}", flush=True)
        _run([sys.executable, "-m", "venv", "--without-pip", str(venv)], "could not be created")
    # Separately, so that an environment whose creation was interrupted gets its pip on the next
    # call.
    if subprocess.run([python, "-c", "import pip"], capture_output=True, check=False).returncode:
        _run(
            [str(python), "-m", "ensurepip", "--upgrade", "--default-pip"],
            (
                "has no working pip; on Debian and Ubuntu: apt install python3-venv;"
                " then: make clean, and again"
            ),
        )
    return python


def install(root: Path, venv: Path, extras: Sequence[str], torch: str) -> None:
    """Bring the environment to where it holds the project, editable, with `extras`."""
    stale = stale_extras(root, venv, extras)
    if not stale:
        return
    begin = time.monotonic()
    python = create(venv)
    install_torch.install(python, torch)
    print(f"Installing Rejoinder with {', '.join(stale)}", flush=True)
    pins = ["-c", str(root / "constraints.txt")]
    build = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["build-system"][
        "requires"
    ]
    # The build tools come first and are pinned too; an isolated build would fetch their newest
    # versions each time.
    project = ["--no-build-isolation", "-e", f"{root}[{','.join(stale)}]"]
    for arguments in ([*build, "editables"], project):
        if quiet_pip.install(python, [*pins, *arguments]):
            sys.exit(
                "The installation failed (pip's reasons above);"
                " the next call takes it up where it stopped."
            )
    for extra, print_ in stale.items():
        _stamp(venv, extra).parent.mkdir(exist_ok=True)
        _stamp(venv, extra).write_text(print_, encoding="utf-8")
    print(f"The environment is ready ({time.monotonic() - begin:.0f} s)", flush=True)


def _stamp(venv: Path, extra: str) -> Path:
    return venv / "stamps" / extra


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _run(command: list[str], failure: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print((done.stderr or done.stdout).strip(), file=sys.stderr)
        sys.exit(f"The virtual environment {failure}.")


def main() -> None:
    """Parse the command line and install."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("extras", nargs="+", help="extras of pyproject.toml")
    parser.add_argument(
        "--torch", choices=["cpu", "default"], default="cpu", help="which build of torch"
    )
    options = parser.parse_args()
    install(ROOT, ROOT / ".venv", options.extras, options.torch)


if __name__ == "__main__":
    main()
