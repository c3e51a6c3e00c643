"""YAML as texts, within bounds."""

from __future__ import annotations

from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.limits import MAX_DEPTH, check_values
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError


def load_yaml(text: str, name: str) -> Any:
    """Return what YAML says, with all scalars as texts.

    InputError: it is none, too large, or nested too deep.
    """
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
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


def load_sample(sample: Sample, choice: Choice, reading: Reading) -> Any:
    """Return what the YAML of a file says; see `load_yaml`."""
    return load_yaml(sample.source.text(choice.encoding, reading), str(sample.source))
