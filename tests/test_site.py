"""The documentation site: it builds strictly, and every public name and every verb has its page."""

import html
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

import rejoinder
from rejoinder.cli.app import app
from workshop.error_texts import Source

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_verb_and_public_name_has_its_place(site):
    verbs = typer.main.get_command(app).commands
    assert not [
        verb for verb in verbs if not (site / "reference" / f"rejoinder-{verb}.html").is_file()
    ]
    python = (site / "reference" / "python.html").read_text(encoding="utf-8")
    names = {f"rejoinder.{name}" for name in set(rejoinder.__all__) - {"__version__"}}
    adapters = set((ROOT / "src" / "rejoinder" / "integrations").glob("[!_]*.py"))
    for path in adapters - {path for path in adapters if path.stem == "models"}:  # what they share
        found = re.findall(
            r"^(?:class|def) ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        names |= {f"rejoinder.integrations.{path.stem}.{name}" for name in found}
    assert len(names) > 15
    assert not [name for name in names if f'id="{name}"' not in python]


def test_the_documentation_link_leads_to_the_published_site(site):
    """The workflow publishes what `make docs` builds, under the address that the package names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    start = (site / "index.html").read_text(encoding="utf-8")
    assert f'<link rel="canonical" href="{project["urls"]["Documentation"]}' in start
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "site.yml").read_text())
    build = workflow["jobs"]["build"]["steps"]
    assert {"run": "make docs"} in build
    assert build[-1]["with"]["path"] == "build/docs"
    assert workflow["jobs"]["publish"]["needs"] == "build"


def test_the_message_of_every_error_is_there(site):
    package = ROOT / "src" / "rejoinder"
    raised = list(Source.read(package).raised())
    silent = [each for each in raised if not each.texts and not each.passed_on]
    elsewhere = {  # tells what another process, a worker, the operating system said
        "cluster/training.py",
        "corpora/lines.py",
        "stores/folder/log_file.py",
        "stores/postgres/errors.py",
        "paths.py",
        "training/distributed.py",
    }
    assert len(silent) == len(elsewhere)
    assert {str(each.file.relative_to(package)) for each in silent} == elsewhere
    page = html.unescape(
        re.sub(r"<[^>]+>", "", (site / "reference" / "errors.html").read_text(encoding="utf-8"))
    )
    words = " ".join(page.replace("`", "").split())
    assert len(raised) > 600
    assert not [
        text
        for each in raised
        for text in each.texts
        if " ".join(text.replace("`", "").split()) not in words
    ]


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        ('raise InputError(f"{path}: no {what}; give one")', ["…: no …; give one"]),
        (
            'told = "one" if x else "two"\n    raise InputError(f"{x}: {told}")',
            ["…: one", "…: two"],
        ),
        ("raise OwnError(ADVICE)", ["do this"]),
        ("raise InputError(why(x))", ["because of …", "by chance"]),
        (
            'raise MissingExtraError("a map", "plots")',
            ["a map needs the extra 'plots': pip install …"],
        ),
        (
            "try:\n        pass\n    except ValueError as error:\n        raise InputError(str(error))",
            [],
        ),
        ("raise InputError(what)", ["given here"]),
    ],
)
def test_messages_are_put_together(tmp_path, code, texts):
    (tmp_path / "module.py").write_text(
        "class RejoinderError(Exception): ...\nclass InputError(RejoinderError): ...\nclass OwnError(InputError): ...\n"
        "class MissingExtraError(InputError): ...\nADVICE = 'do this'\n"
        "def why(x) -> str | None:\n    if x:\n        return f'because of {x}'\n    return 'by chance'\n"
        f"def f(what, x, path):\n    {code}\nf('given here', 1, 2)\n"
    )
    [raised] = Source.read(tmp_path).raised()
    assert (sorted(raised.texts), raised.passed_on) == (texts, "except" in code)


def test_markdown_for_github_is_read_as_there(site):
    pages = {path.name: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    assert not [name for name, page in pages.items() if "|--" in page]  # a table that stayed text
    assert pages["index.html"].count("<rect") == 4  # the chart of the demo


def test_notebooks_are_pages_with_their_pictures(site):
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        page = (site / "notebooks" / f"{path.stem}.html").read_text(encoding="utf-8")
        assert page.count('src="data:image/png;base64,') >= 2
        assert "<caption>" in page
        tutorials = [
            each.read_text(encoding="utf-8") for each in (site / "tutorials").glob("*.html")
        ]
        assert [
            each for each in tutorials if f'href="../notebooks/{path.stem}.html">a notebook' in each
        ]
