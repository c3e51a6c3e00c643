"""Texts of the errors that the source raises.

… stands for what is only known at run time. A text may be put together: of constants, of what
variables of the function were given, of what functions return. What is caught and passed on has
been raised, and so said, elsewhere.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

GAP = "…"
MOST = 6  # texts that one place may say; of more, what differs is a gap
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
DEEP = 6  # calls and variables from the place that raises to where a text is written


@dataclass(frozen=True)
class Raised:
    """A place that makes an error."""

    file: Path
    line: int
    kind: str
    texts: Sequence[str]  # none: it has no word of its own
    passed_on: bool  # it tells what was caught


@dataclass
class Source:
    """The files of a package, and what names stand for in them."""

    trees: Mapping[Path, ast.Module]
    functions: dict[str, list[ast.AST]] = field(default_factory=dict)
    constants: dict[str, list[ast.expr]] = field(default_factory=dict)

    @classmethod
    def read(cls, package: Path) -> Source:
        """Read all files of a package."""
        source = cls(
            {
                path: ast.parse(path.read_text(encoding="utf-8"))
                for path in sorted(package.rglob("*.py"))
            }
        )
        for tree in source.trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef):
                    source.functions.setdefault(node.name, []).append(node)
            for name, values in _variables(tree.body).items():
                if name.isupper():
                    source.constants.setdefault(name, []).extend(values)
        return source

    def errors(self) -> set[str]:
        """Return the names of the exceptions that it defines, and of the built-in ones."""
        found = {name for name, kind in vars(builtins).items() if _is_exception(kind)}
        classes = [
            node
            for tree in self.trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        ]
        for _ in classes:  # of one more generation each time
            found |= {
                each.name
                for each in classes
                if found & {getattr(base, "id", "") for base in each.bases}
            }
        return found

    def raised(self) -> Iterator[Raised]:
        """Yield every place that makes an error."""
        kinds = self.errors()
        for path, tree in self.trees.items():
            for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, FUNCTION))]:
                nodes = list(_walk(scope.body))
                local = _variables(scope.body)
                caught = {node.name for node in nodes if isinstance(node, ast.ExceptHandler)}
                for node in nodes:
                    if (
                        isinstance(node, ast.Call)
                        and (kind := getattr(node.func, "id", "")) in kinds
                        and node.args
                    ):
                        names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
                        said = self._said(kind, node.args, local)
                        said = said or self._said(
                            kind, node.args, {**local, **self._parameters(scope)}
                        )
                        yield Raised(path, node.lineno, kind, said, passed_on=bool(names & caught))

    def _said(
        self, kind: str, arguments: Sequence[ast.expr], local: Mapping[str, list[ast.expr]]
    ) -> list[str]:
        texts = [self._texts(each, local, DEEP) for each in arguments]
        if kind == "MissingExtraError":
            return [
                f"{what} needs the extra '{extra}': pip install {GAP}"
                for what in texts[0]
                for extra in texts[-1]
            ]
        return [text for text in itertools.chain(*texts) if re.search(r"[^\W\d]{2}", text)]

    def _texts(self, node: ast.expr, local: Mapping[str, list[ast.expr]], deep: int) -> list[str]:
        """Return what an expression may be."""
        node = node.value if isinstance(node, ast.FormattedValue) else node
        found = list(dict.fromkeys(text or GAP for text in self._ways(node, local, deep)))
        return found if 0 < len(found) <= MOST else [GAP]

    def _ways(self, node: ast.expr, local: Mapping[str, list[ast.expr]], deep: int) -> list[str]:
        found: list[str] = []
        match node:
            case ast.Constant(value=str(value)):
                found = [value]
            case ast.JoinedStr(values=parts):
                found = self._joined(parts, local, deep)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                found = self._joined([left, right], local, deep)
            case ast.IfExp(body=one, orelse=other):
                found = self._texts(one, local, deep) + self._texts(other, local, deep)
            case ast.Name(id=name) if deep:
                for given in local.get(name) or self.constants.get(name, []):
                    found += self._texts(given, local, deep - 1)
            case ast.Call(func=ast.Attribute(value=text, attr="format")):
                found = [re.sub(r"\{[^}]*\}", GAP, each) for each in self._texts(text, local, deep)]
            case (
                ast.Call(func=ast.Name(id=name))
                | ast.Call(func=ast.Attribute(attr=name))
                | ast.Attribute(attr=name)
            ):
                for function in self.functions.get(name, []) if deep else ():
                    found += self._returned(function, deep - 1)
        return found

    def _joined(
        self, parts: Sequence[ast.expr], local: Mapping[str, list[ast.expr]], deep: int
    ) -> list[str]:
        said = [self._texts(part, local, deep) for part in parts]
        while len(ways := list(itertools.product(*said))) > MOST:
            said[max(range(len(said)), key=lambda place: len(said[place]))] = [GAP]
        return list(dict.fromkeys("".join(way) for way in ways))

    def _returned(self, function: ast.AST, deep: int) -> list[str]:
        assert isinstance(function, ast.FunctionDef)
        if function.returns is None or "str" not in ast.unparse(function.returns):
            return []
        returns = [
            node.value
            for node in _walk(function.body)
            if isinstance(node, ast.Return) and node.value
        ]
        local = _variables(function.body)
        return [text for value in returns for text in self._texts(value, local, deep)]

    def _parameters(self, scope: ast.AST) -> dict[str, list[ast.expr]]:
        """Return what calls give a function by position."""
        found: dict[str, list[ast.expr]] = {}
        if not isinstance(scope, FUNCTION):
            return found
        names = [each.arg for each in scope.args.args if each.arg != "self"]
        for call in self._calls.get(scope.name, []):
            for name, value in zip(names, call.args, strict=False):
                found.setdefault(name, []).append(value)
        return found

    @cached_property
    def _calls(self) -> dict[str, list[ast.Call]]:
        """The calls of each name."""
        found: dict[str, list[ast.Call]] = {}
        for node in itertools.chain(*map(ast.walk, self.trees.values())):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", getattr(node.func, "attr", ""))
                found.setdefault(called, []).append(node)
        return found


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


def _walk(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield all below, but what is within functions."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, FUNCTION):
            yield node
            waiting += ast.iter_child_nodes(node)


def _variables(body: Sequence[ast.stmt]) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for name, value in _given(body):
        found.setdefault(name, []).append(value)
    return found


def _given(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Yield names and what they are given."""
    for node in _walk(body):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.NamedExpr(
                ast.Name(id=name), value
            ):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = zip(names, values, strict=False)
                yield from ((name.id, value) for name, value in pairs if isinstance(name, ast.Name))
