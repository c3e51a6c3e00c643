"""YAML as texts, within bounds."""

from __future__ import annotations

from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.limits import MAX_DEPTH, check_values
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError

_NULL = "tag:yaml.org,2002:null"


def load_yaml(text: str, name: str, *, nulls: bool = False) -> Any:
    """Return what YAML says, with all scalars as texts; with `nulls` a plain null is None.

    InputError: it is none, too large, or nested too deep.
    """
    import yaml

    base: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    loader: Any = type("CheckedLoader", (base,), {"construct_mapping": _construct_mapping})
    if nulls:
        known = yaml.SafeLoader.yaml_implicit_resolvers
        loader.yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in patterns if tag == _NULL]
            for first, patterns in known.items()
        }
        loader.add_constructor(_NULL, lambda *_: None)
    try:
        depth = 0
        for count, event in enumerate(yaml.parse(text, Loader=loader)):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            check_values(count, name)
            if depth > MAX_DEPTH:  # the loader would use up the stack, and Python with it
                raise InputError(f"{name}: YAML nested more than {MAX_DEPTH} deep")
        return yaml.load(text, Loader=loader)  # noqa: S506
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        reason = getattr(error, "problem", None) or " ".join(str(error).split())
        raise InputError(f"{where}: not YAML ({str(reason)[:120]})") from None
    except RecursionError:
        raise InputError(f"{name}: YAML nested too deep") from None


def _construct_mapping(loader: Any, node: Any, *, deep: bool = False) -> dict[Any, Any]:
    """Return a mapping; one of two values of a key would be lost, so that is an error of YAML."""
    import yaml

    seen: set[str] = set()
    keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
    for key in keys:
        if key.value in seen and key.value != "<<":
            raise yaml.MarkedYAMLError(
                problem=f"{key.value} stands twice in one mapping; keep one of them",
                problem_mark=key.start_mark,
            )
        seen.add(key.value)
    mapping: dict[Any, Any] = yaml.BaseLoader.construct_mapping(loader, node, deep=deep)
    return mapping


def load_sample(sample: Sample, choice: Choice, reading: Reading, *, nulls: bool = False) -> Any:
    """Return what the YAML of a file says; see `load_yaml`."""
    text = sample.source.text(choice.encoding, reading)
    return load_yaml(text, str(sample.source), nulls=nulls)
