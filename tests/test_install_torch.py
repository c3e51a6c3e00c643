"""Nobody gets several gigabytes of CUDA packages without asking for them."""

from pathlib import Path

import pytest

import install_torch
import quiet_pip


@pytest.fixture
def constraints(tmp_path):
    path = tmp_path / "constraints.txt"
    path.write_text("# pins\nsympy==1.14.0\ntorch==2.13.0\ntorchmetrics==1.0\n", encoding="utf-8")
    return path


def use(monkeypatch, offered="", installed=None):
    """Put a pip in place that knows one requirement; return the list of what it is asked."""
    asked = []

    def install(_python, arguments, *, show):
        assert not show  # a refusal that the next attempt makes good is nobody's concern
        asked.append(arguments)
        error = f"ERROR: No matching distribution found for {arguments[-1]}"
        return [] if arguments[-1] == offered else ["WARNING: slow", error]

    monkeypatch.setattr(quiet_pip, "install", install)
    monkeypatch.setattr(install_torch, "installed_version", lambda _python: installed)
    return asked


@pytest.mark.parametrize(
    ("offered", "installed", "build", "system", "asked"),
    [
        ("", "2.13.0", "cpu", "Linux", []),  # the pinned one is there
        ("torch==2.13.0+cpu", "2.9.0", "cpu", "Linux", ["torch==2.13.0+cpu"]),
        ("torch==2.13.0", None, "default", "Linux", ["torch==2.13.0"]),
        # there the plain version is a CPU build
        ("torch==2.13.0", None, "cpu", "Darwin", ["torch==2.13.0"]),
        ("torch==2.13.0", None, "cpu", "Windows", ["torch==2.13.0"]),
    ],
)
def test_what_is_installed(monkeypatch, constraints, offered, installed, build, system, asked):
    found = use(monkeypatch, offered, installed)
    install_torch.install(Path("python"), build, system, constraints)
    assert [arguments[-1] for arguments in found] == asked


def test_asks_the_cpu_index_last_and_never_takes_the_big_build_on_linux_unasked(
    monkeypatch, constraints, capsys
):
    asked = use(monkeypatch, "torch==2.13.0")
    with pytest.raises(SystemExit, match=r"(?s)No CPU build.*TORCH=default"):
        install_torch.install(Path("python"), "cpu", "Linux", constraints)
    assert [install_torch.CPU_INDEX in arguments for arguments in asked] == [False, True]
    assert "torch==2.13.0" not in [arguments[-1] for arguments in asked]
    assert "No matching distribution found" in capsys.readouterr().err


def test_says_how_to_restore_a_missing_pin():
    with pytest.raises(SystemExit, match="git checkout"):
        install_torch.pinned_version("torchmetrics==1.0\n")


def test_pip_errors_stay_and_notes_on_its_configuration_go(tmp_path, capfd):
    python = tmp_path / "python"
    noise = "WARNING: Location 'file:///x/y/' is ignored: it is neither a file nor a directory."
    error = "ERROR: No space left on device"
    python.write_text(
        f'#!/bin/sh\necho "{noise}" >&2\necho "{error}" >&2\nexit 1\n', encoding="utf-8"
    )
    python.chmod(0o755)
    lines = quiet_pip.install(python, ["anything"])
    assert lines == [error]
    assert quiet_pip.reason(lines) == "No space left on device"
    assert capfd.readouterr().err == f"{error}\n"
