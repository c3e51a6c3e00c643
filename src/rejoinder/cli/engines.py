"""The options that say where the tasks of a verb run: this machine, or a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from rejoinder.errors import InputError

if TYPE_CHECKING:
    from rejoinder.cluster.ray_engine import RayEngine

EngineOption: TypeAlias = Annotated[
    str | None, typer.Option("--engine", metavar="local|ray", help="Where the work is done; local if not given.")
]
AddressOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="auto|HOST:PORT|ray://HOST:PORT",
        help="With --engine ray: the cluster; if not given that of RAY_ADDRESS, or one on this machine.",
    ),
]


def wants_ray(engine: str | None, address: str | None) -> bool:
    """Return whether the options ask for a cluster.

    Raises:
        InputError: they do not fit each other.
    """
    if engine not in (None, "local", "ray"):
        raise InputError(f"--engine must be local or ray, not {engine!r}")
    if address is not None and engine != "ray":
        raise InputError("--address is the address of a Ray cluster; give --engine ray with it")
    return engine == "ray"


def ray_engine(address: str | None, output: Path, files: Iterable[Path]) -> RayEngine:
    """Return the engine of a cluster whose nodes all see the folder that `output` lies in, and the input files."""
    from rejoinder.cluster.ray_engine import RayEngine

    given = list(files)
    if pipes := [file for file in given if not file.is_file()]:
        raise InputError(f"{pipes[0]} is no file on a disk; the nodes of a cluster cannot read it")
    return RayEngine(address, folders=[Path(os.path.realpath(output)).parent], files=given)
