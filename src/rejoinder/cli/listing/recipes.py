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

    found = []
    for name, path in settings.recipes().items():
        document = settings.read_toml(path, "gone")
        verb = _VERBS.get(name.partition("/")[0], "train")
        about = document["description" if verb == "train" else "name"]
        found.append({"name": name, "verb": verb, "description": about, "path": str(path)})
    width = max(len(each["name"]) for each in found)
    lines = []
    for verb in ("train", *_VERBS.values()):
        lines += ["", f"rejoinder {verb}"]
        lines += [
            f"  {each['name']:<{width}}  {each['description']}"
            for each in found
            if each["verb"] == verb
        ]
    emit({"recipes": found}, as_json, lambda _: "\n".join(lines[1:]))
