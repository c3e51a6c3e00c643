"""Install the pinned torch, as a CPU build wherever one is offered.

The default Linux build brings several gigabytes of CUDA packages. Nobody who only tries the demo
should pay for them, so a build without them is looked for first, and the big one is installed only
when it is asked for.
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import quiet_pip

CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


@dataclass(frozen=True)
class Attempt:
    """One way to get torch: where it is looked for, and what pip is asked."""

    place: str
    arguments: tuple[str, ...]


def pinned_version(constraints: str) -> str:
    """The version in the line `torch==...` of a constraints file."""
    found = re.search(r"^torch==(\S+)$", constraints, flags=re.MULTILINE)
    if found is None:
        sys.exit(
            "constraints.txt has no line 'torch==VERSION';"
            " restore it with: git checkout constraints.txt"
        )
    return found[1]


def attempts(version: str, build: str, system: str) -> list[Attempt]:
    """The ways to get torch, in the order in which they are tried.

    Args:
        version: the pinned version.
        build: "cpu", or "default" for whatever pip's configuration gives.
        system: as `platform.system()` says it.

    Returns:
        On Linux never the plain version unless `build` is "default": since 2.11 the plain wheels
        carry CUDA on x86 and on ARM. On macOS and Windows the plain wheel is a CPU build already.
    """
    plain = Attempt("pip's own indexes", (f"torch=={version}",))
    if build == "default" or system != "Linux":
        return [plain]
    cpu = f"torch=={version}+cpu"
    once = ("--index-url", CPU_INDEX, "--retries", "1", "--timeout", "10")
    return [Attempt("pip's own indexes", (cpu,)), Attempt(CPU_INDEX, (*once, cpu))]


def installed_version(python: Path) -> str | None:
    """The version of the torch that `python` can import, without its build (`2.13.0`), or None."""
    probe = "import torch; print(torch.__version__)"
    done = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False)
    return done.stdout.strip().partition("+")[0] if done.returncode == 0 else None


def install(
    python: Path, build: str, system: str | None = None, constraints: Path = CONSTRAINTS
) -> None:
    """Install the pinned torch for `python` unless it is there.

    Exit with one clear line when it cannot be had.
    """
    version = pinned_version(constraints.read_text(encoding="utf-8"))
    if installed_version(python) == version:
        return
    system = system or platform.system()
    print(f"Installing torch {version}, {'CPU' if build == 'cpu' else 'default'} build", flush=True)
    failures = []
    for attempt in attempts(version, build, system):
        # torch alone: its dependencies follow with the project's own, pinned and from pip's own
        # indexes.
        lines = quiet_pip.install(python, ["--no-deps", *attempt.arguments], show=False)
        if not lines:
            return
        failures.append(f"{attempt.place}: {quiet_pip.reason(lines)}")
    print(*(f"  {failure}" for failure in failures), sep="\n", file=sys.stderr)
    if build == "cpu" and system == "Linux":
        sys.exit(
            f"No CPU build of torch {version} could be had (reasons above)."
            " The default build works too, but brings several GB of CUDA packages;"
            " to accept it, add TORCH=default to the same make command."
        )
    sys.exit(
        f"torch {version} could not be installed (reasons above);"
        " it has wheels for 64-bit Python 3.11 and newer."
    )


def main() -> None:
    """Install torch into the environment of the Python that runs this script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", choices=["cpu", "default"], default="cpu")
    install(Path(sys.executable), parser.parse_args().build)


if __name__ == "__main__":
    main()
