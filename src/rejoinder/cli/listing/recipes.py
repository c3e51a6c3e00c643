"""`rejoinder list recipes`."""

from __future__ import annotations

from rejoinder.cli.arguments import Json
from rejoinder.cli.shell import emit

_VERBS = {"ablations": "lab ablate", "tables": "lab table"}  # of the folders of recipes


def recipes(as_json: Json = False) -> None:
    """List the recipes that come with Rejoinder; commands accept these names.

    Example: rejoinder list recipes --json
    """
    from rejoinder import settings

    rows = []
    for name, path in settings.recipes().items():
        document = settings.read_toml(path, "gone")
        verb = _VERBS.get(name.partition("/")[0], "train")
        about = document["description" if verb == "train" else "name"]
        rows.append({"name": name, "verb": verb, "description": about, "path": str(path)})
    width = max(len(row["name"]) for row in rows)
    lines = []
    for verb in ("train", *_VERBS.values()):
        lines += ["", f"rejoinder {verb}"]
        lines += [
            f"  {row['name']:<{width}}  {row['description']}" for row in rows if row["verb"] == verb
        ]
    emit({"recipes": rows}, as_json, lambda _: "\n".join(lines[1:]))
