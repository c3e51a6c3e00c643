"""Requirements of a job on each node of a cluster, and the check of the nodes."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rejoinder.errors import InputError, reason_of

RETRIES = 5  # of work whose worker or node was lost


@dataclass(frozen=True)
class NodeRequirements:
    """Requirements of a job on each node."""

    version: str
    current: str  # the current folder: relative paths start there
    marker_files: tuple[str, ...]  # files that were just written into the shared folders
    files: tuple[tuple[str, int], ...]  # absolute paths and sizes of the input files


def collect_requirements(
    marker_files: Sequence[Path], files: Sequence[str | Path]
) -> NodeRequirements:
    """Return the requirements of a job that starts in this process."""
    sizes = tuple((str(path.absolute()), path.stat().st_size) for path in map(Path, files))
    return NodeRequirements(
        version=installed_version(),
        current=str(Path.cwd()),
        marker_files=tuple(map(str, marker_files)),
        files=sizes,
    )


def installed_version() -> str:
    """Return the version of Rejoinder that is installed here."""
    return importlib.metadata.version("rejoinder")


def check_node(required: NodeRequirements) -> str:
    """Enter the job's current folder; return what this node lacks, or "".

    The text completes the sentence "node NAME ...".
    """
    version = installed_version()
    if version != required.version:
        return (
            f"has rejoinder {version}, and {required.version} is needed; install that on all nodes"
        )
    try:
        os.chdir(required.current)
    except OSError as error:
        return (
            f"cannot enter the current folder {required.current}: {error.strerror}; "
            "all nodes must have it, so start the command in a shared folder"
        )
    for marker in required.marker_files:
        if not Path(marker).exists():
            return (
                f"does not share the folder {Path(marker).parent}; "
                "put the output on storage that all nodes see"
            )
    for file, size in required.files:
        if not Path(file).exists() or Path(file).stat().st_size != size:
            return f"does not see {file} as it is here; put the input on storage that all nodes see"
    return ""


def check_nodes(ray: Any, required: NodeRequirements) -> None:
    """Check every node; InputError names the first that lacks something, and what.

    A node that is lost meanwhile is left out.
    """
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = _alive(ray)
    if not nodes:
        raise InputError("the Ray cluster has no node with a CPU to run tasks on")
    check = ray.remote(num_cpus=0, max_retries=RETRIES)(check_node)
    strategies = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
    answers = [
        check.options(scheduling_strategy=strategy).remote(required) for strategy in strategies
    ]
    for node, answer in zip(nodes, answers, strict=True):
        try:
            fault = ray.get(answer)
        except RayError as error:
            if node["NodeID"] not in {other["NodeID"] for other in _alive(ray)}:
                continue  # lost meanwhile, so it gets no task
            raise InputError(
                f"node {node['NodeManagerAddress']} of the Ray cluster cannot run our code;"
                f" rejoinder must be installed on all nodes ({reason_of(error)})"
            ) from None
        if fault:
            raise InputError(f"node {node['NodeManagerAddress']} of the Ray cluster {fault}")


def _alive(ray: Any) -> list[dict[str, Any]]:
    """Return the nodes that can run tasks."""
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
