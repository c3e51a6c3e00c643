"""The place of the objects in a JSON file."""

from __future__ import annotations

from rejoinder.corpora.forms.source import Sample


def find_base(sample: Sample, bases: tuple[str, ...], *keys: str) -> str | None:
    """Return the path of the objects that have all of these keys."""
    return next(
        (base for base in bases if all(f"{base}{key}" in sample.keys for key in keys)), None
    )
