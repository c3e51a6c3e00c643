"""The folder of a table: table.md, table.json and a chart, all of one measurement."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from rejoinder.errors import MissingExtraError
from rejoinder.evaluation import plots
from rejoinder.files import atomic_file
from rejoinder.folder_kinds import Kind, check_shared, is_ours
from rejoinder.lab.bars import draw_bars
from rejoinder.lab.table import Table

PICTURES = ("png", "svg")
KIND = "rejoinder table"
FOLDER = Kind("a table's folder", "table.json", lambda table: table["kind"] == KIND, ())
CELLS = "cells"  # folder of the finished cells within that of a table


def check_output(folder: Path) -> None:
    """Refuse a folder that `save_table` cannot write, before anything is computed."""
    if not is_ours(folder, FOLDER):
        check_shared(folder, FOLDER.name, [CELLS])


def save_table(table: Table, folder: Path) -> list[Path]:
    """Write table.md, .json, .png and .svg into a folder, all of them or none.

    See `check_output`. Without the library for pictures none are written, and those of an
    earlier table are removed.
    """
    check_output(folder)
    content = {"kind": KIND, "format": 1, **table.to_json()}
    texts = {"md": table.markdown(), "json": json.dumps(content, indent=2) + "\n"}
    try:
        chart = draw_bars(table)
    except MissingExtraError:
        chart = None
    pictures = () if chart is None else PICTURES
    files = {kind: folder / f"table.{kind}" for kind in (*texts, *pictures)}
    # No file is replaced before all are written; table.json, opened last, is replaced
    # first.
    with contextlib.ExitStack() as together:
        parts = {
            kind: together.enter_context(atomic_file(files[kind])) for kind in (*pictures, *texts)
        }
        for kind, text in texts.items():
            parts[kind].write_text(text, encoding="utf-8")
        for kind in PICTURES:
            if chart is None:
                (folder / f"table.{kind}").unlink(missing_ok=True)
            else:
                plots.save_figure(chart, parts[kind], kind)
    return list(files.values())
