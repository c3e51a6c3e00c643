"""Options that several verbs have."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from rejoinder.errors import InputError

if TYPE_CHECKING:
    from rejoinder.cluster.engine import RayEngine


Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

Overwrite: TypeAlias = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier result.")
]

SettingsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; repeatable."),
]

ReplyForm: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="format=NAME (of `rejoinder list formats`; for tables also"
        " table,encoding=cp1252,delimiter=semicolon,header=no), columns=text=NAME,questions=NAME."
        " Default: detected.",
    ),
]

SplitOption: TypeAlias = Literal["train", "valid", "test"]

TestSplit: TypeAlias = Annotated[
    SplitOption | None,
    typer.Option("--split", help="Split to use. Default: `test` of a data folder, all of a file."),
]

Sampled: TypeAlias = Annotated[
    int | None,
    typer.Option("--sample", min=1, metavar="N", help="Use at most N random examples."),
]

ProcessesOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Worker processes. Default: one per core, fewer for small inputs."
    ),
]

Ray: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="auto|HOST:PORT|ray://HOST:PORT",
        help="Ray cluster to work on; auto: RAY_ADDRESS, or this machine's. Default: no cluster.",
    ),
]

DeviceName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="auto|cpu|cuda[:N]|mps",
        help="Where to compute; auto: a CUDA card if there is one.",
    ),
]

EngineOption: TypeAlias = Annotated[
    Literal["auto", "onnx", "torch"],
    typer.Option(
        "--engine",
        help="Compute by ONNX programs or with PyTorch; auto: the quicker, start included.",
    ),
]

IndexName: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="INDEX",
        help="What `rejoinder index build` wrote: a folder, or postgresql://HOST/DB?index=NAME.",
    ),
]

RankerName: TypeAlias = Annotated[
    str | None, typer.Option(metavar="MODEL", help="Model to re-rank the 50 best replies with.")
]

MinimumScore: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="SCORE", help="Minimum score, as `reply` shows it."),
]

MinimumConfidence: TypeAlias = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="P",
        help="Minimum probability that the best reply is right; see `calibrate`.",
    ),
]

Earlier: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--history",
        metavar="N",
        min=0,
        help="Number of earlier messages to use. Default: only those on the same subject.",
    ),
]

Omitted: TypeAlias = Literal["copies", "repeats", "both", "nothing"]

Omit: TypeAlias = Annotated[
    Omitted,
    typer.Option(
        help="Omit near-duplicates of better replies, repeats of earlier messages, or both."
    ),
]

Filter: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="FIELD=VALUE,...",
        help="Only replies with one of the values in the field; repeatable.",
    ),
]

HybridWeight: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0, metavar="W", help="Weight of BM25, added to each score (for example 0.02)."
    ),
]

Host: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="Address to listen on; other machines need a key or secret."
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
        raise typer.BadParameter(f"give a number of {least} or more, or all")

    return number


_HISTORY = typer.Option(
    parser=number_or_all(0), metavar="N|all", help="Earlier messages to keep in a context."
)

HistoryOption: TypeAlias = Annotated[int | None, _HISTORY]


def check_processes(ray: str | None, processes: int | None) -> None:
    """Refuse a number of processes beside a Ray cluster."""
    if ray is not None and processes is not None:
        raise InputError(
            "--processes is for this machine; a Ray cluster uses the CPUs that its nodes offer"
        )


def ray_engine(address: str, output: Path, files: Iterable[Path]) -> RayEngine:
    """Return the engine of a Ray cluster.

    Its nodes must see the input files and the folder in which `output` lies.
    """
    from rejoinder.cluster.engine import RayEngine

    files = list(files)
    if pipes := [file for file in files if not file.is_file()]:
        raise InputError(
            f"{pipes[0]} is not a file on a disk; the nodes of a cluster cannot read it"
        )
    return RayEngine(address, folders=[Path(os.path.realpath(output)).parent], files=files)
