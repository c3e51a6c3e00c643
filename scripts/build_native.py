"""Compiles the library in C, `rejoinder/corpora/native_lines.c`, when Rejoinder is installed or a wheel is made.

It only saves time, so where there is no compiler the wheel is one of pure Python that does the same. The environment
decides otherwise: REJOINDER_NATIVE=0 leaves it out, REJOINDER_NATIVE=1 makes a failure an error.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "src/rejoinder/corpora/native_lines.c"
LIBRARY = "src/rejoinder/corpora/libnative_lines.so"
FLAGS = ["-O3", "-std=c99", "-shared", "-fPIC"]
SETTING = "REJOINDER_NATIVE"


class CustomBuildHook(BuildHookInterface[Any]):
    """Called by hatchling."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before a wheel, an editable one too, is put together."""
        if self.target_name != "wheel":
            return
        library = compile_library(Path(self.root))
        if library is None:
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"  # the library knows nothing of Python, so any version will do
        build_data["pure_python"] = False
        if version != "editable":
            build_data["artifacts"].append(LIBRARY)


def compile_library(root: Path) -> Path | None:
    """Compile the library; None, and a word on standard error, if that cannot be.

    Raises:
        RuntimeError: it cannot be, and the setting demands it.
    """
    library = root / LIBRARY
    library.unlink(missing_ok=True)
    setting = os.environ.get(SETTING, "")
    if setting == "0":
        return None
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[:1]
    part = library.with_suffix(f".{os.getpid()}.part")
    try:
        digest = hashlib.sha256((root / SOURCE).read_bytes()).hexdigest()
        command = [*compiler, *FLAGS, f'-DSOURCE="{digest}"', str(root / SOURCE), "-o", str(part)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        reason = done.stderr.strip()[-500:] if done.returncode else ""
    except OSError as error:
        reason = f"{compiler[0]}: {error.strerror}"
    if not reason:
        part.replace(library)
        return library
    part.unlink(missing_ok=True)
    if setting == "1":
        raise RuntimeError(f"{SOURCE} could not be compiled, and {SETTING} is 1: {reason}")
    sys.stderr.write(f"{SOURCE} is not compiled, so large files take longer: {reason}\n")
    return None
