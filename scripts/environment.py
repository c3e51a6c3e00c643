"""Make the virtual environment that the verbs of the Makefile run in.

    python3 scripts/environment.py dev train   # .venv has these extras afterwards

pip installs uv there, and uv the rest; if nothing is missing, uv does nothing. The default Linux
build of torch brings several gigabytes of CUDA packages, so the CPU build is installed unless
`--torch default` asks for it.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
# pip's settings of indexes, which uv does not read, as uv's options
OPTIONS = {
    "cert": "--cert",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "index-url": "--default-index",
    "trusted-host": "--allow-insecure-host",
}


def create(venv: Path) -> Path:
    """Create what is missing of the environment, pip and uv; return its interpreter."""
    python = venv / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if python.is_symlink() and not python.exists():
        sys.exit(
            f"The Python that {venv.name} was made with is gone;"
            " run: make clean, and then the same again"
        )
    if not python.exists():
        print(
            f"Creating {venv.name} with Python {sys.version.split()[0]}; this takes minutes",
            flush=True,
        )
        _run([sys.executable, "-m", "venv", "--without-pip", venv], "could not be created")
    # Separately, so that an environment whose creation was interrupted gets its pip on the next
    # call.
    if not _succeeds([python, "-c", "import pip"]):
        _run(
            [python, "-m", "ensurepip", "--upgrade", "--default-pip"],
            "has no working pip; on Debian and Ubuntu: apt install python3-venv;"
            " then: make clean, and again",
        )
    if not _succeeds([python, "-c", "import uv"]):
        quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
        _run(
            [python, "-m", "pip", "install", *quiet, "-c", CONSTRAINTS, "uv"],
            "has no uv, since pip failed (reasons above)",
        )
    return python


def index_options(listing: str) -> list[str]:
    """Return pip's settings of indexes, as `pip config list` prints them, as options of uv."""
    values = {}
    for section in ("global", "install", ":env:"):  # the last one counts, as for pip
        for name, text in re.findall(rf"^{section}\.([\w-]+)=(.+)$", listing, flags=re.MULTILINE):
            values[name] = ast.literal_eval(text).split()
    options = [f"{OPTIONS[name]}={value}" for name in OPTIONS for value in values.get(name, ())]
    if values.get("no-index") in (["true"], ["1"]):
        options.append("--no-index")
    # pip takes the best version of all indexes, uv by itself those of the first that has any.
    return [*options, "--index-strategy=unsafe-best-match"]


def install(venv: Path, extras: Sequence[str], torch: str, system: str = sys.platform) -> None:
    """Bring the environment to where it holds the project, editable, with `extras`."""
    python = create(venv)
    listing = subprocess.run(
        [python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    pins: list[str | Path] = ["--constraints", CONSTRAINTS, "--build-constraints", CONSTRAINTS]
    settings = [*index_options(listing.stdout), *pins, "--quiet"]
    uv = [python, "-m", "uv", "pip", "install", "--python", python, *settings]
    # The plain wheels of Linux carry CUDA; those of macOS and Windows are CPU builds.
    is_missing = torch == "cpu" and system == "linux" and not _has_pinned_torch(python)
    # The indexes that pip is configured with may have the CPU build; else PyTorch's has it.
    if is_missing and not _succeeds([*uv, "--no-deps", f"torch=={_pinned_torch()}+cpu"]):
        uv.append("--torch-backend=cpu")
    # A project on the command line is always installed again, one in a file if it has changed.
    # The build tools are for the tests, which build the wheel, and for `make lock`.
    lines = "\n".join([*_settings()["build-system"]["requires"], f"-e .[{','.join(extras)}]"])
    done = subprocess.run([*uv, "-r", "-"], input=lines, text=True, cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(
            "The installation failed (uv's reasons above). Run the same command to continue."
            " If only torch's CPU build is missing, add TORCH=default; on Linux that build brings"
            " several GB of CUDA packages."
        )


def _settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _pinned_torch() -> str:
    pin = re.search(r"^torch==(\S+)$", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    if pin is None:
        sys.exit(
            "constraints.txt has no line 'torch==VERSION';"
            " restore it with: git checkout constraints.txt"
        )
    return pin[1]


def _has_pinned_torch(python: Path) -> bool:
    """Return whether the pinned version of torch is installed, whatever its build."""
    probe = "import importlib.metadata; print(importlib.metadata.version('torch'))"
    done = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False)
    return done.stdout.strip().partition("+")[0] == _pinned_torch()


def _succeeds(command: Sequence[str | Path]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _run(command: Sequence[str | Path], failure: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print((done.stderr or done.stdout).strip(), file=sys.stderr)
        sys.exit(f"The virtual environment {failure}.")


def main() -> None:
    """Parse the command line and install."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(_settings()["project"]["optional-dependencies"])
    parser.add_argument("extras", nargs="+", choices=names, metavar="EXTRA", help=", ".join(names))
    parser.add_argument(
        "--torch", choices=["cpu", "default"], default="cpu", help="which build of torch"
    )
    options = parser.parse_args()
    install(ROOT / ".venv", options.extras, options.torch)


if __name__ == "__main__":
    main()
