"""Reports of paragraphs, tables and bar charts, as Markdown and as HTML that needs nothing else.

Objects show themselves as well: one line as text, a table in a notebook.
"""

from __future__ import annotations

import base64
import hashlib
import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

WIDTH = 720  # of a chart
HEIGHT = 180
_GAP = 0.15  # share of a bar's room
COLOURS = ("#1f6f5c", "#7fbfae", "#c9a227", "#b3541e", "#8a8f8c")  # of the parts of a bar
STYLE = """:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #8888; padding: .3rem .8rem .3rem 0; text-align: left; }
td { overflow-wrap: anywhere; vertical-align: top; }
figure { margin: 1rem 0; }
svg { height: auto; max-width: 100%; }
"""


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table below a heading; without rows it is left out."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars of shares, one above the other, below a heading; without bars it is left out."""

    title: str
    parts: Sequence[str]  # what each part of a bar is
    bars: Sequence[tuple[str, Sequence[float]]]  # its label, and the share of each part, 0 to 1


Block: TypeAlias = Text | Table | Bars


@dataclass(frozen=True, slots=True)
class Document:
    """A report."""

    title: str
    blocks: Sequence[Block]

    def markdown(self) -> str:
        """Return the report as Markdown. Charts are left out."""
        return self._render(escape_markdown)

    def plain(self) -> str:
        """Return the report as Markdown without escaping, for a terminal."""
        return self._render(_one_line)

    def _render(self, escape: Callable[[object], str]) -> str:
        parts = [f"# {escape(self.title)}\n"]
        for block in self.blocks:
            if isinstance(block, Text):
                parts.append(f"{escape(block.text)}\n")
            elif isinstance(block, Table) and block.rows:
                parts.append(f"## {escape(block.title)}\n")
                lines = [[escape(cell) for cell in line] for line in (block.head, *block.rows)]
                parts.append(markdown_table(lines, left=range(len(block.head))))
        return "\n".join(parts)

    def html(self) -> str:
        """Return the report as one HTML file."""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(self.title)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
            f"{self.article()}</body>\n</html>\n"
        )

    @staticmethod
    def style_digest() -> str:
        """Return by what a Content-Security-Policy allows the style of the HTML file."""
        digest = hashlib.sha256(f"\n{STYLE}".encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    def article(self) -> str:
        """Return the report as HTML to stand in a page, which has the styles."""
        parts = [f"<h2>{html.escape(self.title)}</h2>\n"]
        for block in self.blocks:
            if isinstance(block, Text):
                parts.append(f"<p>{html.escape(block.text)}</p>\n")
            elif isinstance(block, Table) and block.rows:
                parts.append(f"<h3>{html.escape(block.title)}</h3>\n{_html_table(block)}")
            elif isinstance(block, Bars) and block.bars:
                parts.append(f"<h3>{html.escape(block.title)}</h3>\n{_svg(block)}")
        return f"<article>\n{''.join(parts)}</article>\n"


def markdown_table(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Return a Markdown table whose first row is the head.

    The columns of `left` are flush left, the others right.
    """
    rule = ["---" if column in left else "---:" for column in range(len(rows[0]))]
    lines = (
        " | ".join(cell.replace("|", "\\|") for cell in row) for row in (rows[0], rule, *rows[1:])
    )
    return "".join(f"| {line} |\n" for line in lines)


def escape_markdown(text: object) -> str:
    """Return a text of one line in which nothing is a tag or a link."""
    return _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace("[", "\\[")


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _html_table(table: Table) -> str:
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in table.head)
    rows = ("".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) for row in table.rows)
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"


def _svg(chart: Bars) -> str:
    """Return stacked bars as SVG, each with a tip of its shares."""
    room = WIDTH / len(chart.bars)
    pieces = []
    for number, (label, shares) in enumerate(chart.bars):
        top = float(HEIGHT)
        tip = ", ".join(
            f"{name} {share:.0%}" for name, share in zip(chart.parts, shares, strict=True)
        )
        pieces.append(f"<g><title>{html.escape(f'{label}: {tip}')}</title>")
        for share, colour in zip(shares, COLOURS, strict=False):
            height = round(HEIGHT * share, 2)
            top -= height
            pieces.append(
                f'<rect x="{room * (number + _GAP):.2f}" y="{top:.2f}" '
                f'width="{room * (1 - 2 * _GAP):.2f}" height="{height}" fill="{colour}"/>'
            )
        pieces.append("</g>")
    labels = _labels([label for label, _ in chart.bars], room)
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT + 24}" role="img" '
        f'aria-label="{html.escape(chart.title)}">{"".join(pieces)}{labels}</svg>\n'
        f"<figcaption>{_legend(chart.parts)}</figcaption></figure>\n"
    )


def _labels(labels: Sequence[str], room: float) -> str:
    """Return some of the labels below the bars, so that none covers another."""
    step = max(1, round(90 / room + 0.49))
    return "".join(
        f'<text x="{room * (number + 0.5):.2f}" y="{HEIGHT + 18}" font-size="13" '
        f'text-anchor="middle" fill="currentColor">{html.escape(label)}</text>'
        for number, label in enumerate(labels)
        if number % step == 0
    )


def _legend(parts: Iterable[str]) -> str:
    return " ".join(
        f'<svg width="12" height="12" viewBox="0 0 1 1" aria-hidden="true">'
        f'<rect width="1" height="1" fill="{colour}"/></svg> {html.escape(name)}'
        for name, colour in zip(parts, COLOURS, strict=False)
    )


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
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
            for name, value in facts
        )
        return f"<table><caption>{type(self).__name__}</caption>{''.join(rows)}</table>"
