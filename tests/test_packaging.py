"""What is installed is what is pinned, and the version is told once."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import rejoinder
from extras import base_libraries

ROOT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
BUILD = SETTINGS["build-system"]["requires"]
EXTRAS = {"": PROJECT["dependencies"], "build": BUILD, **PROJECT["optional-dependencies"]}


def pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def pinned_versions():
    return {
        canonicalize_name(pin.name): Version(str(pin.specifier).removeprefix("=="))
        for pin in pins()
    }


@pytest.mark.parametrize(
    ("extra", "requirement"), [(extra, line) for extra, lines in EXTRAS.items() for line in lines]
)
def test_requirements_are_pinned_to_a_version_they_allow(extra, requirement):
    wanted = Requirement(requirement)
    pinned = pinned_versions().get(canonicalize_name(wanted.name))
    assert pinned is not None, (
        f"{wanted.name} of '{extra}' is not in constraints.txt; run `make lock`"
    )
    assert wanted.specifier.contains(pinned)


def test_constraints_are_exact_sorted_and_without_local_builds():
    names = [pin.name.lower() for pin in pins()]
    assert names == sorted(names)
    assert len(names) == len({canonicalize_name(name) for name in names})
    assert all(re.fullmatch(r"==[^*+]+", str(pin.specifier)) for pin in pins())


def test_changelog_and_citation_have_the_version_and_one_date():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)", text, flags=re.MULTILINE)
    assert headings[0] == "Unreleased"
    version, date = re.fullmatch(r"\[(.*)\] - (\d{4}-\d\d-\d\d)", headings[1]).groups()
    assert version == rejoinder.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {version}" in citation
    assert f"date-released: {date}" in citation


@pytest.mark.parametrize("folder", [ROOT, *sorted((ROOT / "weights").iterdir())], ids=str)
def test_an_index_can_show_the_project(folder):
    """`twine check --strict` refuses a package without a description."""
    settings = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    if "readme" in project:
        pages = [project["readme"]]
    else:
        hook = settings["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
        pages = [fragment["path"] for fragment in hook["fragments"]]
    assert [(folder / page).suffix for page in pages] == [".md"]
    assert (folder / pages[0]).is_file()
    assert [(folder / name).is_file() for name in project["license-files"]] == [True]


def test_links_of_the_readme_are_whole_on_an_index():
    hook = SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for rule in hook["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://")] == []
    assert [link for link in links if link.endswith(".png")] == [
        "https://raw.githubusercontent.com/rejoinder/rejoinder/main/docs/page.png"
    ]


def test_weights_take_this_version():
    for path in (ROOT / "weights").glob("*/pyproject.toml"):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        ours = [line for line in map(Requirement, project["dependencies"]) if line.name == "rejoinder"]
        assert [line.specifier.contains(rejoinder.__version__) for line in ours] == [True]


def test_the_release_tries_the_readmes_questions():
    """scripts/release.sh runs the first two commands of the README over a faq.csv of its own."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    build, reply = re.findall(r"^rejoinder .*", text, flags=re.MULTILINE)[:2]
    assert re.match(r"rejoinder index build [a-z-]+ faq\.csv -o (\S+)", build)
    assert "card" in reply
    script = (ROOT / "scripts" / "release.sh").read_text(encoding="utf-8")
    assert "grep -m 2 '^rejoinder ' README.md" in script
    assert "We will send another card." in script
    assert "We will send another card." in text


def test_makefile_installs_only_extras_that_exist():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    asked = {extra for line in re.findall(r"\$\(INSTALL\) (.*)", text) for extra in line.split()}
    assert set() < asked <= set(PROJECT["optional-dependencies"])


def test_the_base_with_its_models_takes_at_most_250_megabytes():
    taken = base_libraries()
    assert {"numpy", "onnxruntime", "rejoinder"} <= taken.keys()
    assert not {"torch", "pyarrow", "scipy"} & taken.keys()
    assert sum(taken.values()) <= 250, taken
