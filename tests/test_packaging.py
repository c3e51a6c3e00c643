"""What is installed is what is pinned, and the version is told once."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import rejoinder

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


def test_changelog_begins_with_the_version_of_the_package():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(\d[^\]]*)\]", text, flags=re.MULTILINE)
    assert versions[0] == rejoinder.__version__


def test_makefile_installs_only_extras_that_exist():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    asked = {extra for line in re.findall(r"\$\(INSTALL\) (.*)", text) for extra in line.split()}
    assert set() < asked <= set(PROJECT["optional-dependencies"])
