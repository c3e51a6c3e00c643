"""Hooks of MkDocs: pages of the command, the chart, and Markdown as GitHub reads it.

The documents are written for GitHub, where a table or a list may follow a paragraph at once, and
links may lead out of docs/. The command's pages are made of its own help, those of notebooks of
their cells, that of errors of the source.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from rejoinder.cli.app import app
from workshop.error_texts import Source

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
QUALITY = ROOT / "benchmarks" / "results" / "quality.json"
ERRORS = "reference/errors.md"
CHART = "<!-- chart of the demo -->"
_SETTINGS = re.compile(r"<!-- settings of (\S+) -->")
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
_BLOCK_AFTER_TEXT = re.compile(r"(?<=\n)((?![|\-*#> ]|\d+\. )[^\n]+\n)(?=\||[-*] |\d+\. )")
_BELOW_ITEM = re.compile(r"^ {2,3}(?=\S)", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^):#]+)(?:#[^)]*)?\)")
_SPECIAL = re.compile(r"(`[^`|]+`)|([*_|\[\]{}<`])")
_NAMES = {
    "bm25": "BM25",
    "demo/scratch/model": "trained from scratch",
    "bi-small": "bundled, as it is",
    "demo/tuned/model": "bundled, fine-tuned",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the command's pages under Reference."""
    assert config.nav is not None
    (reference,) = (each["Reference"] for each in config.nav if "Reference" in each)
    reference.append({"Errors": ERRORS})
    reference.append({"The command": [{name: _path(name)} for name in _verbs()]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each verb and each notebook, and one of all errors."""
    files.append(File.generated(config, ERRORS, content=errors_page()))
    for name, context in _verbs().items():
        files.append(File.generated(config, _path(name), content=help_page(name, context)))
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        files.append(
            File.generated(config, f"notebooks/{path.stem}.md", content=notebook_page(path))
        )
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Insert chart and settings, convert GitHub's Markdown, unlink files outside the site."""
    markdown = _SETTINGS.sub(lambda found: settings(ROOT / found[1]), markdown)
    parts = _FENCE.split(markdown)  # every second one is code
    parts[::2] = (_mended(part, page) for part in parts[::2])
    parts[1::2] = (
        textwrap.indent(part, "  ") if part.startswith("  `") else part for part in parts[1::2]
    )
    return "\n".join(parts).replace(
        CHART, chart(json.loads(QUALITY.read_text(encoding="utf-8"))["rows"])
    )


def help_page(name: str, context: click.Context) -> str:
    """Return the page of a verb: its usage, what it does, its arguments and options."""
    command = context.command
    paragraphs = (command.help or "").split("\n\n") + ([command.epilog] if command.epilog else [])
    parts = [f"# {name}", _fenced(" ".join([name, *command.collect_usage_pieces(context)]))]
    parts += [
        _fenced(each) if "rejoinder " in each else _plain(each)
        for each in map(str.strip, paragraphs)
    ]
    rows = [
        record for each in command.get_params(context) if (record := each.get_help_record(context))
    ]
    for title, chosen in (
        ("Arguments", [row for row in rows if not row[0].startswith("-")]),
        ("Options", [row for row in rows if row[0].startswith("-")]),
    ):
        if chosen:
            table = [f"| <code>{_plain(names)}</code> | {_plain(told)} |" for names, told in chosen]
            parts.append("\n".join([f"## {title}\n\n| | |\n|---|---|", *table]))
    return "\n\n".join(parts) + "\n"


def notebook_page(path: Path) -> str:
    """Return the page of a notebook: its texts, its code, and what is stored of its outputs."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            ((form, shown),) = output.get("data", {"text/plain": output.get("text")}).items()
            text = "".join(shown)
            picture = (
                '<img alt="the picture that the code above draws"'
                f' src="data:image/png;base64,{text.strip()}">'
            )
            parts.append(
                {"image/png": picture, "text/html": text}.get(
                    form, f"```text\n{text.rstrip()}\n```"
                )
            )
    parts[0] += f"\n\nThis page is the notebook `{path.relative_to(ROOT)}`."
    return "\n\n".join(parts) + "\n"


def errors_page() -> str:
    """Return the page of all messages that the source raises, by part of the library."""
    package = ROOT / "src" / "rejoinder"
    rooms: dict[str, set[str]] = {}
    for raised in Source.read(package).raised():
        room = (
            raised.file.relative_to(package)
            .parts[0]
            .removesuffix(".py")
            .replace("__init__", "rejoinder")
        )
        rooms.setdefault(room, set()).update(raised.texts)
    parts = [
        "# Errors",
        (
            "Every message that Rejoinder raises,"
            " with … for what was given, and for what another library says."
            " Before some of them stands where it was: a file and a line, a recipe and its key."
            " Of what to do there is more under [troubleshooting](../troubleshooting.md)."
        ),
    ]
    for room, messages in rooms.items():
        if messages:
            parts.append(
                "\n".join(
                    [
                        f"## {room}\n",
                        *(f"- {_plain(each)}" for each in sorted(messages, key=str.casefold)),
                    ]
                )
            )
    return "\n\n".join(parts) + "\n"


def chart(rows: dict[str, Any]) -> str:
    """Draw recall at 1 of the demo's systems, with the intervals, from their stored figures."""
    bars = []
    for row, (head, name) in enumerate(_NAMES.items()):
        value, low, high = rows[head]["recall"]["1"]
        y = 34 + row * 44
        color = "accent-fg-color" if row == len(_NAMES) - 1 else "primary-fg-color"
        bars.append(
            f'<text x="178" y="{y + 19}" text-anchor="end">{name}</text>'
            f'<rect x="190" y="{y}" width="{value * 9:.0f}" height="28" rx="3"'
            f' style="fill: var(--md-{color})"/>'
            f'<path d="M{190 + low * 9:.1f} {y + 14}H{190 + high * 9:.1f}"'
            ' stroke="currentColor" stroke-width="2"/>'
            f'<text x="{202 + high * 9:.0f}" y="{y + 19}" font-weight="bold">{value} %</text>'
        )
    told = "How often the right reply is the first of 100, on held-out conversations"
    return (
        f'<svg viewBox="0 0 660 216" role="img" aria-label="{told}"'
        ' style="max-width: 42rem; width: 100%; color: var(--md-default-fg-color); font-size: 15px"'
        f' fill="currentColor"><text y="18">{told}</text>'
        f"{''.join(bars)}</svg>"
    )


def settings(path: Path) -> str:
    """Return the dataclasses of a source file, each with its fields and their comments.

    Methods are left out.
    """
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    parts = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.decorator_list:
            fields = [each for each in node.body if not isinstance(each, ast.FunctionDef)]
            text = "\n".join(lines[node.lineno - 1 : fields[-1].end_lineno])
            parts.append(f"### {node.name}\n```python\n{text}\n```")
    return "\n\n".join(parts)


def _mended(text: str, page: Page) -> str:
    """Set tables and lists off, indent items' content, unlink files that are not a page."""

    def named(link: re.Match[str]) -> str:
        target = (DOCS / page.file.src_path).parent.joinpath(link[2]).resolve()
        if target.is_relative_to(DOCS):
            return link[0]
        if target.suffix == ".ipynb":
            return f"[{link[1]}]({'../' * page.file.src_path.count('/')}notebooks/{target.stem}.md)"
        if not target.exists():
            raise PluginError(f"{page.file.src_path}: there is no {link[2]}")
        return f"{link[1]} (`{target.relative_to(ROOT)}`)"

    text = _BLOCK_AFTER_TEXT.sub(r"\1\n", _LINK.sub(named, text))
    return _BELOW_ITEM.sub("    ", text)


def _verbs() -> dict[str, click.Context]:
    """The whole names of all verbs, each with its context, in the order of `rejoinder --help`."""

    def below(
        name: str, command: Any, above: click.Context | None
    ) -> Iterator[tuple[str, click.Context]]:
        context = command.context_class(command, info_name=name, parent=above, terminal_width=100)
        yield context.command_path, context
        for each, verb in getattr(command, "commands", {}).items():
            yield from below(each, verb, context)

    return dict(below("rejoinder", typer.main.get_command(app), None))


def _path(name: str) -> str:
    return f"reference/{name.replace(' ', '-')}.md"


def _fenced(text: str) -> str:
    return f"```text\n{click.wrap_text(text, 88, preserve_paragraphs=True)}\n```"


def _plain(text: str) -> str:
    """Text that Markdown and HTML leave as it is, but for code in backticks."""
    return _SPECIAL.sub(
        lambda found: found[1] or ("&lt;" if found[2] == "<" else f"\\{found[2]}"), text
    )
