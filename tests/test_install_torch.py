"""Nobody gets several gigabytes of CUDA packages without asking for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import install_torch
import quiet_pip


@pytest.fixture
def constraints(tmp_path: Path) -> Path:
    path = tmp_path / "constraints.txt"
    path.write_text("# pins\nsympy==1.14.0\ntorch==2.13.0\ntorchmetrics==1.0\n", encoding="utf-8")
    return path


class FakePip:
    """Stands for pip: knows which requirements are offered, keeps what it was asked."""

    def __init__(self, *offered: str) -> None:
        self.offered = offered
        self.asked: list[list[str]] = []

    def install(self, _python: Path, arguments: Sequence[str], *, show: bool) -> list[str]:
        assert not show  # a refusal that the next attempt makes good is nobody's concern
        self.asked.append(list(arguments))
        found = arguments[-1] in self.offered
        return [] if found else ["WARNING: slow", f"ERROR: No matching distribution found for {arguments[-1]}"]

    @property
    def requirements(self) -> list[str]:
        return [arguments[-1] for arguments in self.asked]


def use(monkeypatch: pytest.MonkeyPatch, pip: FakePip, installed: str | None = None) -> FakePip:
    monkeypatch.setattr(quiet_pip, "install", pip.install)
    monkeypatch.setattr(install_torch, "installed_version", lambda _python: installed)
    return pip


@pytest.mark.parametrize(
    ("offered", "installed", "build", "system", "asked"),
    [
        ("", "2.13.0", "cpu", "Linux", []),  # the pinned one is there
        ("torch==2.13.0+cpu", "2.9.0", "cpu", "Linux", ["torch==2.13.0+cpu"]),
        ("torch==2.13.0", None, "default", "Linux", ["torch==2.13.0"]),
        ("torch==2.13.0", None, "cpu", "Darwin", ["torch==2.13.0"]),  # there the plain version is a CPU build
        ("torch==2.13.0", None, "cpu", "Windows", ["torch==2.13.0"]),
    ],
)
def test_what_is_installed(
    monkeypatch: pytest.MonkeyPatch, constraints: Path,
    offered: str, installed: str | None, build: str, system: str, asked: list[str],
) -> None:  # fmt: skip
    pip = use(monkeypatch, FakePip(offered), installed)
    install_torch.install(Path("python"), build, system, constraints)
    assert pip.requirements == asked


def test_asks_the_cpu_index_only_when_pip_has_no_cpu_build(monkeypatch: pytest.MonkeyPatch, constraints: Path) -> None:
    pip = use(monkeypatch, FakePip())
    with pytest.raises(SystemExit, match="TORCH=default"):
        install_torch.install(Path("python"), "cpu", "Linux", constraints)
    assert [install_torch.CPU_INDEX in arguments for arguments in pip.asked] == [False, True]


def test_never_takes_the_big_build_on_linux_unasked(monkeypatch: pytest.MonkeyPatch, constraints: Path,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    pip = use(monkeypatch, FakePip("torch==2.13.0"))
    with pytest.raises(SystemExit, match="No CPU build"):
        install_torch.install(Path("python"), "cpu", "Linux", constraints)
    assert "torch==2.13.0" not in pip.requirements
    assert "No matching distribution found" in capsys.readouterr().err


def test_says_how_to_restore_a_missing_pin() -> None:
    with pytest.raises(SystemExit, match="git checkout"):
        install_torch.pinned_version("torchmetrics==1.0\n")


def test_pip_errors_stay_and_notes_on_its_configuration_go(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    python = tmp_path / "python"
    noise = "WARNING: Location 'file:///x/y/' is ignored: it is neither a file nor a directory."
    error = "ERROR: No space left on device"
    python.write_text(f'#!/bin/sh\necho "{noise}" >&2\necho "{error}" >&2\nexit 1\n', encoding="utf-8")
    python.chmod(0o755)
    lines = quiet_pip.install(python, ["anything"])
    assert lines == [error]
    assert quiet_pip.reason(lines) == "No space left on device"
    assert capfd.readouterr().err == f"{error}\n"
