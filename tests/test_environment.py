"""The Makefile's environment: uv gets pip's indexes, and nobody gets CUDA packages without asking for them."""

import shlex
import sys

import pytest

import environment

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="a Python of the tests is a shell script"
)
CPU = f"torch=={environment._pinned_torch()}+cpu"


@pytest.fixture
def venv(tmp_path):
    """Make an environment whose Python writes down what it is asked, and fails at what holds one of some words."""

    def make(*fails, torch=""):
        python = tmp_path / "bin" / "python"
        python.parent.mkdir()
        cases = "".join(f"  *{shlex.quote(words)}*) echo no >&2; exit 1;;\n" for words in fails)
        python.write_text(
            f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\ncase "$*" in\n{cases}'
            f'  *version*) echo "{torch}";;\n'
            "  *'config list'*) echo \"global.find-links='/wheels /more'\";;\n"
            f"  *'-r -') cat >{tmp_path}/project;;\nesac\n"
        )
        python.chmod(0o755)
        return tmp_path

    return make


def installations(venv):
    """What uv was asked to install, in order."""
    asked = (venv / "asked").read_text().splitlines()
    return [line for line in asked if " uv pip install " in line]


def test_pip_settings_become_options_of_uv():
    listing = """\
:env:.find-links='/opt/wheels'
:env:.timeout='60'
download.index-url='https://elsewhere/simple'
global.extra-index-url='https://one/simple\\nhttps://two/simple'
global.find-links='/usr/wheels'
install.index-url='https://mirror/simple'
"""
    assert environment.index_options(listing) == [
        "--index=https://one/simple",
        "--index=https://two/simple",
        "--find-links=/opt/wheels",
        "--default-index=https://mirror/simple",
        "--index-strategy=unsafe-best-match",
    ]
    assert "--no-index" in environment.index_options("global.no-index='true'\n")
    assert environment.index_options("") == ["--index-strategy=unsafe-best-match"]


@pytest.mark.parametrize(
    ("fails", "installed", "build", "system", "expected"),
    [
        ((), "", "cpu", "linux", [CPU, "-r -"]),  # an index of pip's has the CPU build
        ((CPU,), "", "cpu", "linux", [CPU, "--torch-backend=cpu -r -"]),
        ((CPU,), "2.9.0", "cpu", "linux", [CPU, "--torch-backend=cpu -r -"]),
        ((), CPU.partition("==")[2], "cpu", "linux", ["-r -"]),  # it is there
        ((), "", "default", "linux", ["-r -"]),
        ((), "", "cpu", "darwin", ["-r -"]),  # there the plain version is a CPU build
        ((), "", "cpu", "win32", ["-r -"]),
    ],
)
def test_which_torch_is_installed(venv, fails, installed, build, system, expected):
    folder = venv(*fails, torch=installed)
    environment.install(folder, ["demo", "train"], build, system)
    commands = installations(folder)
    assert len(commands) == len(expected)
    for line, end in zip(commands, expected, strict=True):
        assert line.endswith(f" {end}")
        assert "--find-links=/wheels --find-links=/more" in line
    assert ("--torch-backend" in commands[-1]) == ("--torch-backend" in expected[-1])
    *tools, project = (folder / "project").read_text().splitlines()
    assert project == "-e .[demo,train]"
    assert any(line.startswith("hatchling") for line in tools)


def test_a_failed_installation_says_what_to_do(venv):
    folder = venv("-r -", torch=CPU.partition("==")[2])
    with pytest.raises(SystemExit, match=r"(?s)reasons above.*TORCH=default"):
        environment.install(folder, ["train"], "cpu", "linux")


def test_without_uv_pip_installs_the_pinned_one_or_its_reasons_are_shown(venv, capfd):
    folder = venv("import uv", "install --quiet")
    with pytest.raises(SystemExit, match="has no uv"):
        environment.install(folder, ["train"], "cpu", "linux")
    assert (folder / "asked").read_text().splitlines()[-1].endswith(" uv")
    assert capfd.readouterr().err == "no\n"


def test_says_how_to_restore_a_missing_pin(tmp_path, monkeypatch):
    (tmp_path / "pins").write_text("torchmetrics==1.0\n")
    monkeypatch.setattr(environment, "CONSTRAINTS", tmp_path / "pins")
    with pytest.raises(SystemExit, match="git checkout"):
        environment._pinned_torch()


def test_unknown_extras_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["environment.py", "corpora"])
    with pytest.raises(SystemExit):
        environment.main()
    assert "'corpora'" in capsys.readouterr().err
