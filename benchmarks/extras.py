"""What the files of each extra take beside the base installation, with all libraries that it needs.

Counted in this environment, which has the extras installed; of one that is not all there, what is
missing is named.

    python benchmarks/extras.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rejoinder
from common import write_result
from rejoinder.progress import track


def main() -> None:
    """Count, print, write `results/extras.json`."""
    result = measure()
    print(result)
    write_result("extras", result)


def measure() -> dict[str, Any]:
    """Return the megabytes of the base with Rejoinder, of each library in it, and of each extra."""
    own = distribution("rejoinder")
    base = needed(own, "")
    libraries = base_libraries()
    extras: dict[str, float] = {}
    missing: dict[str, list[str]] = {}
    names = own.metadata.get_all("Provides-Extra") or []
    with track("Counting", len(names), "extras") as advance:
        for extra in names:
            more = needed(own, extra).items() - base.items()
            extras[extra] = megabytes(found for _, found in more)
            if absent := sorted(name for name, found in more if found is None):
                missing[extra] = absent
            advance(1)
    return {
        "base": sum(libraries.values()),
        "libraries": libraries,
        "extras": extras,
        "not installed here": missing,
    }


def base_libraries() -> dict[str, float]:
    """Return the megabytes of each library of the base, and of Rejoinder with its models."""
    base = needed(distribution("rejoinder"), "")
    libraries = {name: megabytes([found]) for name, found in base.items()}
    package = Path(rejoinder.__file__).parent
    libraries["rejoinder"] = (
        sum(
            path.stat().st_size
            for path in package.rglob("*")
            if path.is_file() and path.suffix != ".pyc"
        )
        / 1e6
    )
    return libraries


def needed(start: Distribution, extra: str) -> Mapping[str, Distribution | None]:
    """Return what a distribution needs with an extra, by name; None: not installed."""
    found: dict[str, Distribution | None] = {}
    waiting = [(start, extra)]
    seen = set()
    while waiting:
        of, chosen = waiting.pop()
        for line in of.requires or ():
            wanted = Requirement(line)
            if wanted.marker and not wanted.marker.evaluate({"extra": chosen}):
                continue
            name = canonicalize_name(wanted.name)
            found[name] = there = installed(name)
            for more in {"", *wanted.extras}:
                if there is not None and (name, more) not in seen:
                    seen.add((name, more))
                    waiting.append((there, more))
    return found


@cache
def installed(name: str) -> Distribution | None:
    """Return a distribution of this environment."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def megabytes(distributions: Iterable[Distribution | None]) -> float:
    """Return what the files of distributions take."""
    files = [
        Path(str(found.locate_file(file)))
        for found in distributions
        if found
        for file in found.files or ()
    ]
    return sum(path.stat().st_size for path in files if path.is_file()) / 1e6


if __name__ == "__main__":
    main()
