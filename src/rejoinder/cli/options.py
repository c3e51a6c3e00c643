"""Options that several verbs have, and the engine that they choose: this machine or Ray."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from rejoinder.errors import InputError

if TYPE_CHECKING:
    from rejoinder.cluster import RayEngine

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Overwrite: TypeAlias = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier result.")
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; repeatable."),
]
Split: TypeAlias = Literal["train", "valid", "test"]
TestSplit: TypeAlias = Annotated[
    Split | None,
    typer.Option("--split", help="Default: `test` for a data folder, everything for a file."),
]
ValidSplit: TypeAlias = Annotated[
    Split | None,
    typer.Option("--split", help="Default: `valid` for a data folder, everything for a file."),
]
Limit: TypeAlias = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Rank N examples at most, at random.")
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, metavar="N", help="Random seed.")]
Processes: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Worker processes. Default: one per core, fewer for small inputs."
    ),
]
RunOn: TypeAlias = Annotated[
    Literal["local", "ray"], typer.Option("--engine", help="Engine that does the work.")
]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="auto|HOST:PORT|ray://HOST:PORT",
        help=("With --engine ray: the cluster. Default: RAY_ADDRESS, or one on this machine."),
    ),
]


def number_or_all(least: int) -> Callable[[str], int | None]:
    """Return a parser of options: a number from `least` on, or "all" (None)."""

    def number(text: str) -> int | None:
        text = str(text)
        if text == "all":
            return None
        if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= least:
            return int(text)
        raise typer.BadParameter(
            f"it must be a number of {least} or more, or all, not {text[:40]!r}"
        )

    return number


_HISTORY = typer.Option(
    parser=number_or_all(0), metavar="N|all", help="Messages kept before the newest of a context."
)
History: TypeAlias = Annotated[int | None, _HISTORY]


def wants_ray(engine: str, address: str | None, processes: int | None = None) -> bool:
    """Return whether the options ask for a cluster, or refuse what does not fit."""
    if address is not None and engine != "ray":
        raise InputError("--address is the address of a Ray cluster; give --engine ray with it")
    if engine == "ray" and processes is not None:
        raise InputError(
            "--processes is for this machine; a Ray cluster uses the CPUs that its nodes offer"
        )
    return engine == "ray"


def ray_engine(address: str | None, output: Path, files: Iterable[Path]) -> RayEngine:
    """Return the engine of a Ray cluster.

    Its nodes must see the input files and the folder in which `output` lies.
    """
    from rejoinder.cluster import RayEngine

    files = list(files)
    if pipes := [file for file in files if not file.is_file()]:
        raise InputError(f"{pipes[0]} is no file on a disk; the nodes of a cluster cannot read it")
    return RayEngine(address, folders=[Path(os.path.realpath(output)).parent], files=files)
