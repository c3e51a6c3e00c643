"""Display of objects: one line as text, a table in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from html import escape


class Described(ABC):
    """An object that is shown by its facts."""

    @abstractmethod
    def facts(self) -> Mapping[str, object]:
        """Return what tells the object apart, by name."""

    def __repr__(self) -> str:
        facts = [f"{name}={value!r}" for name, value in self.facts().items()]
        return f"{type(self).__name__}({', '.join(facts)})"

    def _repr_html_(self) -> str:
        facts = self.facts().items()
        rows = (
            f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
            for name, value in facts
        )
        return f"<table><caption>{type(self).__name__}</caption>{''.join(rows)}</table>"
