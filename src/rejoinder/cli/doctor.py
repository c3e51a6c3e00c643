"""`rejoinder doctor`: what is installed, what the machine can do, and what slows it down."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Any

import typer

import rejoinder
from rejoinder.cli.arguments import Json
from rejoinder.cli.shell import emit
from rejoinder.telemetry import TELEMETRY_OFF


def doctor(
    empty: Annotated[
        bool, typer.Option("--empty-cache", help="Remove the cache's files: they are made again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show versions, the processor's features, installed extras, the cache, and hints for speed.

    Example: rejoinder doctor --json
    """
    from rejoinder.cache import empty_cache

    removed = empty_cache() if empty else None
    report = examine()
    report["cache"]["removed"] = removed
    emit(report, as_json, _text)


def examine() -> dict[str, Any]:
    """Return all facts; those from PyTorch are None if it is not installed."""
    from rejoinder.cache import cache_folder, cache_size
    from rejoinder.encoders import bundled

    torch, features = _pytorch()
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    files, size = cache_size()
    report: dict[str, Any] = {
        "rejoinder": rejoinder.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "torch": torch,
        "processor": {"name": _processor_name(), "cores": cores, **features},
        "models": bundled.names(),
        "extras": extras(),
        "cache": {"folder": str(cache_folder()), "files": files, "bytes": size},
        "telemetry": {name: os.environ[name] for name in TELEMETRY_OFF},
    }
    return report | {"advice": advice(report)}


def _pytorch() -> tuple[dict[str, Any] | None, dict[str, bool | None]]:
    """Return facts about PyTorch, and the processor's features that it uses."""
    if find_spec("torch") is None:
        return None, dict.fromkeys(("bfloat16", "exact_int8", "packed_linears"))
    import torch

    from rejoinder import processor

    facts = {
        "version": torch.__version__,
        "build": "CUDA" if torch.version.cuda else "ROCm" if torch.version.hip else "CPU",
        "threads": torch.get_num_threads(),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }
    features: dict[str, bool | None] = {
        "bfloat16": processor.has_fast_bfloat16(),
        "exact_int8": processor.has_exact_int8(),
        "packed_linears": processor.has_onednn(),
    }
    return facts, features


def extras() -> dict[str, dict[str, str | None]]:
    """Return the library versions of each extra, None for a missing library."""
    from importlib import metadata

    versions: dict[str, dict[str, str | None]] = {}
    for line in metadata.requires("rejoinder") or ():
        requirement, _, marker = line.partition(";")
        if extra := re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", marker):
            name = re.match(r"[\w.-]+", requirement.strip())
            assert name is not None
            versions.setdefault(extra[1], {})[name[0]] = _version(name[0])
    return versions


def advice(found: Mapping[str, Any]) -> list[str]:
    """Return the causes of slowness, each with its remedy."""
    torch = found["torch"]
    processor = found["processor"]
    if torch is None:
        return [
            "PyTorch is not installed: `train`, `export`, and models without"
            " ONNX programs need it; pip install 'rejoinder[torch]'"
        ]
    checks = [
        (
            not processor["packed_linears"],
            (
                "this PyTorch has no oneDNN: encoding takes up to three times as long;"
                " install PyTorch's build for x86"
            ),
        ),
        (
            not processor["bfloat16"],
            (
                "this processor has no bfloat16 (AVX512-BF16 or AMX):"
                " models compute in float32, about half as fast, bi-small and bi-base in int8"
            ),
        ),
        (
            not processor["exact_int8"],
            (
                "this processor adds 8-bit products in 16 bits (no VNNI): the candidates of int8"
                " searches are slightly less exact"
            ),
        ),
        (
            torch["threads"] < processor["cores"],
            (
                f"PyTorch uses {torch['threads']} of {processor['cores']} cores:"
                " unset OMP_NUM_THREADS, or load(threads=N)"
            ),
        ),
        (
            torch["build"] == "CUDA" and not torch["devices"],
            (
                "PyTorch's CUDA build on a machine without a GPU: it works, but takes 2 GB more"
                " than the CPU build"
            ),
        ),
    ]
    return [text for applies, text in checks if applies]


def _cache_line(cache: Mapping[str, Any]) -> str:
    line = f"cache: {cache['files']} files, {cache['bytes'] / 1e6:.1f} MB in {cache['folder']}"
    if cache["removed"] is None:
        return line
    return f"{line}; {cache['removed']} removed"


def _version(library: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123 (no path of the user's)
            names = [
                line.partition(":")[2].strip() for line in file if line.startswith("model name")
            ]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def _text(report: Mapping[str, Any]) -> str:
    """Return what was found as lines: versions, processor, features, models, advice."""
    torch = report["torch"]
    processor = report["processor"]
    yes = {True: "yes", False: "no", None: "unknown"}
    lines = [
        f"rejoinder {report['rejoinder']}, Python {report['python']}, {report['system']}",
        "no torch"
        if torch is None
        else f"torch {torch['version']} ({torch['build']} build), {torch['threads']} threads, "
        f"{', '.join(torch['devices']) or 'no GPU'}",
        (
            f"{processor['name']}, {processor['cores']} cores;"
            f" bfloat16 {yes[processor['bfloat16']]},"
            f" exact 8-bit products {yes[processor['exact_int8']]},"
            f" packed linear layers {yes[processor['packed_linears']]}"
        ),
        f"models: {', '.join(report['models'])}",
        _cache_line(report["cache"]),
        (
            "telemetry of libraries:"
            f" {', '.join(f'{name}={value}' for name, value in report['telemetry'].items())}"
        ),
        "",
    ]
    for extra, libraries in report["extras"].items():
        missing = [name for name, version in libraries.items() if version is None]
        installed = [
            f"{name} {version}" for name, version in libraries.items() if version is not None
        ]
        state = f"missing {', '.join(missing)}" if missing else "complete"
        lines.append(f"{extra:10} {state}" + (f" ({', '.join(installed)})" if installed else ""))
    return "\n".join([*lines, "", *(report["advice"] or ["nothing to advise"])])
