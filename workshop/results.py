"""Pages of tables and pictures of the files that the benchmarks leave (benchmarks/results/*.json).

    python -m workshop.results benchmarks/results -o docs/results

A figure is written once, in its file: the pages are made of the files alone. What the papers have
stands beside it, and says so where the data differ. The folder's own folder `recorded` has what
other commands printed: a file gives its title, what there is to say about it, the command, where
and when it ran, and the table's columns and rows as they were. With `table_in`, a model card, the
page links to the card instead of repeating the table. That page, `recorded.md`, is written into
the workshop.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rejoinder.cli.shell import guarded
from rejoinder.documents import markdown_table
from rejoinder.errors import InputError
from rejoinder.evaluation import plots
from rejoinder.files import atomic_file
from rejoinder.json_parsing import parse_json
from workshop import reply_sections, result_sections
from workshop.result_pictures import Json
from workshop.result_sections import Rows, Section

CIRCUMSTANCES = ("date", "command", "cpu", "cores", "python", "torch")
SECTIONS: dict[str, Section] = {**result_sections.SECTIONS, **reply_sections.SECTIONS}
WIDTH = 110
"""Characters of a line of prose."""
WORKSHOP = Path(__file__).parent
RECORDED = "recorded.md"


def write_results(folder: Path, output: Path, workshop: Path = WORKSHOP) -> list[Path]:
    """Write the pages of a folder's files, with their pictures as SVG; return what was written.

    The page of recorded figures goes to `workshop`, all else to `output`.

    Raises:
        InputError: there is no file of figures.
        MissingExtraError: matplotlib is missing.
    """
    figures = read_figures(folder)
    texts = pages(folder)
    output.mkdir(parents=True, exist_ok=True)
    paths = {name: (workshop if name == RECORDED else output) / name for name in texts}
    written = list(paths.values())
    for name in figures:
        if name in SECTIONS and (panels := SECTIONS[name].panels):
            figure, axes = plots.new_grid(len(panels), 4.6 * len(panels), 3.6)
            for axis, draw in zip(axes, panels, strict=True):
                draw(axis, figures[name])
            written.append(output / f"{name}.svg")
            with atomic_file(written[-1]) as part:
                plots.save_figure(figure, part, "svg")
    for name, text in texts.items():
        with atomic_file(paths[name]) as part:
            part.write_text(text, encoding="utf-8")
    return written


def read_figures(folder: Path) -> dict[str, Json]:
    """Return the files of a folder by their names; see `write_results`."""
    figures: dict[str, Json] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            figures[path.stem] = parse_json(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path} is not JSON ({error}); measure it anew") from error
    if not figures:
        raise InputError(
            f"{folder} holds no .json of a benchmark;"
            " run one, such as python benchmarks/encoding.py"
        )
    return figures


def pages(folder: Path) -> dict[str, str]:
    """Return the pages by their names: written by benchmarks, then recorded, if any."""
    about = (
        "Each command writes a file to benchmarks/results; `python -m workshop.results"
        " benchmarks/results -o docs/results` makes this page from them."
    )
    texts = {"tables.md": page("Tables", about, read_figures(folder))}
    if (recorded := folder / "recorded").is_dir():
        about = (
            "These figures were copied by hand from the commands' output into"
            " benchmarks/results/recorded."
        )
        texts[RECORDED] = page("Recorded tables", about, read_figures(recorded))
    return texts


def page(title: str, about: str, figures: Mapping[str, Json]) -> str:
    """Return a page of sections under a title: known ones in their order, then the others."""
    usual, _ = Counter(map(machine, figures.values())).most_common(1)[0]
    about = f"{about} The machine is an {usual}, unless a section names another."
    names = [
        *(name for name in SECTIONS if name in figures),
        *(name for name in figures if name not in SECTIONS),
    ]
    texts = [section(name, figures[name], usual) for name in names]
    return "\n".join([f"# {title}\n\n{wrap(about)}\n", *texts])


def machine(figures: Json) -> str:
    """Return the processor of a file and its cores."""
    return f"{figures.get('cpu', '')}, {figures.get('cores', '?')} cores"


def section(name: str, figures: Json, usual: str = "") -> str:
    """Return a file's section; it names the machine unless it is the `usual` one."""
    about = str(figures.get("about", ""))
    known = SECTIONS.get(name) or Section(
        figures.get("title", name.replace("_", " ").capitalize()), about, everything
    )
    command = figures.get("command", name)
    date = str(figures.get("date", ""))[:10]
    where = machine(figures)
    made = date if where == usual else f"{where}, {date}"
    parts = [
        f"## {known.title}\n",
        *([f"{wrap(known.about)}\n"] if known.about else []),
        _linked_table(name, figures),
        f"{made}:\n```\n{command}\n```\n",
    ]
    if known.panels:
        parts.insert(2, f"![{known.title}]({name}.svg)\n")
    return "\n".join(parts)


def wrap(text: str) -> str:
    """Return a paragraph in lines of `WIDTH` characters, its inline code unbroken."""
    whole = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(whole, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def _linked_table(name: str, figures: Json) -> str:
    """Return a file's table, or a link to the model card that has it."""
    if "table_in" not in figures:
        return table(name, figures)
    return f"The table is in the [model card](../{figures['table_in']}).\n"


def table(name: str, figures: Json) -> str:
    """Return a file's table."""
    try:
        if "columns" in figures:
            return markdown_table([figures["columns"], *figures["rows"]])
        return markdown_table(
            SECTIONS[name].rows(figures) if name in SECTIONS else everything(figures)
        )
    except (KeyError, IndexError, TypeError) as error:
        raise InputError(
            f"{name}.json has not the form that benchmarks/{name}.py writes ({error}); run that"
        ) from error


def everything(figures: Json) -> Rows:
    """Return every figure of a file by its path of keys."""

    def below(value: Any, path: str) -> Rows:
        if isinstance(value, Mapping):
            return [
                row
                for key, each in value.items()
                for row in below(each, f"{path}, {key}" if path else str(key))
            ]
        if isinstance(value, list) and not all(isinstance(each, int | float) for each in value):
            return [
                row
                for place, each in enumerate(value)
                for row in below(each, f"{path} {place + 1}")
            ]
        values = value if isinstance(value, list) else [value]
        return [
            [
                path,
                ", ".join(
                    f"{each:,.4g}" if isinstance(each, float) else str(each) for each in values
                ),
            ]
        ]

    return [
        ["", ""],
        *below({key: value for key, value in figures.items() if key not in CIRCUMSTANCES}, ""),
    ]


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m workshop.results",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="files of figures, in recorded/ those copied")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write")
    parser.add_argument(
        "--workshop",
        type=Path,
        default=WORKSHOP,
        help=f"folder of {RECORDED}. Default: the workshop",
    )
    return parser.parse_args(words)


def main() -> None:
    """Run from the shell."""
    options = arguments()
    for path in write_results(options.folder, options.output, options.workshop):
        print(path)


if __name__ == "__main__":
    guarded(main)()
