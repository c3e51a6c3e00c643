"""Write constraints.txt: the exact version of everything that the environment of this Python holds.

`make lock` installs every extra first and then runs this.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

HEADER = """\
# The exact versions that CI runs, for the base installation and every extra.
# Made by `make lock` from an environment with all of them; upgrade with .venv/bin/pip first, then \
run it again.
# torch stands without its build (+cpu), so that every build of this version fits.
"""
_NOT_OURS = {"pip", "rejoinder"}


def pins() -> list[str]:
    """Return one `name==version` for each installed distribution, without local versions.

    They are sorted by name.
    """
    found = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.name
        if name.lower() not in _NOT_OURS:
            found[name.lower()] = f"{name}=={distribution.version.partition('+')[0]}"
    return [found[name] for name in sorted(found)]


def main() -> None:
    """Write the file beside pyproject.toml."""
    path = Path(__file__).parent.parent / "constraints.txt"
    path.write_text(HEADER + "\n".join(pins()) + "\n", encoding="utf-8")
    print(f"{path.name}: {len(pins())} versions")


if __name__ == "__main__":
    main()
