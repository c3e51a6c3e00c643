"""The library in C is compiled where that is possible, and left out where it is not."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import build_native

ROOT = Path(__file__).parent.parent
needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="no compiler")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(build_native.SETTING, raising=False)
    monkeypatch.setenv("CC", "cc -pthread")
    source = tmp_path / build_native.SOURCE
    source.parent.mkdir(parents=True)
    shutil.copy(ROOT / build_native.SOURCE, source)
    return tmp_path


@needs_compiler
def test_the_library_knows_its_source(root: Path) -> None:
    path = build_native.compile_library(root)
    assert path == root / build_native.LIBRARY
    library = ctypes.CDLL(str(path))
    library.source_digest.restype = ctypes.c_char_p
    assert library.source_digest().decode() == hashlib.sha256((root / build_native.SOURCE).read_bytes()).hexdigest()
    assert {file.suffix for file in path.parent.iterdir()} == {".c", ".so"}


@needs_compiler
def test_the_compiler_has_no_complaint(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_native, "FLAGS", [*build_native.FLAGS, "-Wall", "-Wextra", "-Wconversion", "-Werror"])
    monkeypatch.setenv(build_native.SETTING, "1")
    assert build_native.compile_library(root)


@pytest.mark.parametrize("fault", ["no compiler", "bad source"])
def test_what_cannot_be_compiled_is_left_out_and_told(
    root: Path, fault: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / build_native.LIBRARY).write_text("an old one", encoding="utf-8")
    if fault == "no compiler":
        monkeypatch.setenv("CC", "no-such-compiler")
    else:
        (root / build_native.SOURCE).write_text("int f(void) { return }", encoding="utf-8")
    assert build_native.compile_library(root) is None
    assert "is not compiled, so large files take longer: " in capsys.readouterr().err
    assert [file.suffix for file in (root / build_native.SOURCE).parent.iterdir()] == [".c"]
    monkeypatch.setenv(build_native.SETTING, "1")
    with pytest.raises(RuntimeError, match="could not be compiled, and REJOINDER_NATIVE is 1: "):
        build_native.compile_library(root)


def test_it_can_be_left_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(build_native.SETTING, "0")
    assert build_native.compile_library(root) is None


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("without", [[], ["-U__SSE2__"], ["-U__SSE2__", "-U__BYTE_ORDER__"]], ids=len)
def test_no_byte_is_touched_that_is_not_its_own(
    root: Path, without: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tests run once more with a library that watches every access (AddressSanitizer and its like).

    Also as other processors get it: without SSE2, and of an unknown order of bytes.
    """
    watching = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    monkeypatch.setattr(build_native, "FLAGS", [*build_native.FLAGS, *watching, *without])
    monkeypatch.setenv(build_native.SETTING, "1")
    library = build_native.compile_library(root)
    asked = [["cc", f"-print-file-name={name}"] for name in ("libasan.so", "libubsan.so")]
    found = [subprocess.run(each, capture_output=True, text=True, check=True).stdout.strip() for each in asked]
    tests = str(ROOT / "tests" / "corpora" / "test_native_lines.py")
    code = (
        "import sys, pathlib, pytest; from rejoinder.corpora import native_lines as n\n"
        f"n.LIBRARY = pathlib.Path({str(library)!r})\n"
        f"assert n.is_built(); sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', {tests!r}]))"
    )
    watched = os.environ | {"LD_PRELOAD": " ".join(found), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=watched, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " skipped" not in done.stdout


@needs_compiler
@pytest.mark.parametrize("setting", ["", "0"])
def test_a_wheel_with_the_library_is_for_its_platform(
    root: Path, tmp_path: Path, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hatchling.builders.wheel import WheelBuilder

    monkeypatch.setenv(build_native.SETTING, setting)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore", "src/rejoinder/__init__.py",
                 "scripts/build_native.py"):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, root / name)
    [built] = WheelBuilder(str(root)).build(directory=str(tmp_path / "dist"), versions=["standard"])
    with zipfile.ZipFile(built) as archive:
        has_library = build_native.LIBRARY.removeprefix("src/") in archive.namelist()
    assert has_library == (setting == "")
    assert built.endswith("-py3-none-any.whl") == (setting == "0")
