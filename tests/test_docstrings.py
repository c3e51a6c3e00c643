"""Names that docstrings point to are there."""

import ast
import dataclasses
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from rejoinder.training.recipe import Recipe

SOURCE = Path(__file__).parents[1] / "src" / "rejoinder"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent.name != "integrations")
DOTTED = re.compile(r"`([a-z_]\w*(?:\.[A-Za-z_]\w*)+)`")
ENDINGS = {"in", "json", "jsonl", "md", "npy", "onnx", "py", "toml", "txt"}  # of files' names
# keys of recipes, arguments, and names of other libraries
ELSEWHERE = {
    *(field.name for field in dataclasses.fields(Recipe)),
    *("config", "corpus", "doc", "nn", "options", "ranker", "ray", "stage"),
}


def module_name(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(["rejoinder", *parts]).removesuffix(".__init__")


@cache
def modules_called(stem):
    return [name for name in map(module_name, MODULES) if name.rpartition(".")[2] == stem]


def has(owner, name):
    fields = {**getattr(owner, "__annotations__", {}), **getattr(owner, "__dataclass_fields__", {})}
    return hasattr(owner, name) or name in fields


def leads(start, names):
    owner = start
    for name in names:
        if not has(owner, name):
            return False
        owner = getattr(owner, name, object)
    return True


def is_there(dotted):
    first, *rest = dotted.split(".")
    for name in [*modules_called(first), f"rejoinder.{first}", first]:
        for count in range(len(rest), -1, -1):
            try:
                module = importlib.import_module(".".join([name, *rest[:count]]))
            except ImportError:
                continue
            if leads(module, rest[count:]):
                return True
    return leads(importlib.import_module("rejoinder"), [first, *rest])


def named():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node, clean=False) or ""
                yield from ((path.relative_to(SOURCE), name) for name in DOTTED.findall(text))


def test_dotted_names_resolve():
    wrong = [
        f"{path}: {name}"
        for path, name in named()
        if name.split(".")[0] not in ELSEWHERE
        and name.split(".")[-1] not in ENDINGS
        and not is_there(name)
    ]
    assert not wrong


@pytest.mark.parametrize("name", ["families.KINDS", "packing.Nothing", "rejoinder.nowhere"])
def test_a_stale_name_is_noticed(name):
    assert not is_there(name)
