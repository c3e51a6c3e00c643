"""Dated result files of benchmarks, which name machine, versions and command."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rejoinder.files import atomic_file

RESULTS = Path(__file__).parent / "results"


def write_result(name: str, result: dict[str, Any]) -> Path:
    """Write `results/NAME.json`: the figures, after date, machine, versions and command line.

    Args:
        name: of the benchmark; an earlier result of that name is replaced.
        result: the figures, as JSON values.

    Returns:
        The file written.
    """
    circumstances = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": version("torch"),
    }
    path = RESULTS / f"{name}.json"
    with atomic_file(path) as part:
        part.write_text(
            json.dumps(circumstances | result, indent=2, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )
    return path


def cpu_model() -> str:
    """The processor's name, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
