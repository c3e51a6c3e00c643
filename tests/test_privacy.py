"""Telemetry of libraries is off once the package is imported (none is sent: `tests/network`)."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rejoinder.telemetry import TELEMETRY_OFF, switch_telemetry_off

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def test_a_setting_of_the_users_own_stays(monkeypatch):
    for name in TELEMETRY_OFF:
        monkeypatch.delenv(name, raising=False)
    own = {"HAYSTACK_TELEMETRY_ENABLED": "True", "ORT_DISABLE_TELEMETRY": "0"}
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    switch_telemetry_off()
    assert {name: os.environ[name] for name in TELEMETRY_OFF} == TELEMETRY_OFF | own


@pytest.mark.parametrize("entry", ["rejoinder", "rejoinder.cli", "rejoinder.errors"])
def test_every_import_switches_it_off(entry):
    """Those of the runtime, the adapters and the workers begin with the package too."""
    show = "print(json.dumps([dict(os.environ), sorted(sys.modules)]))"
    clean = {name: value for name, value in os.environ.items() if name not in TELEMETRY_OFF}
    command = [sys.executable, "-c", f"import json, os, sys, {entry}; {show}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=clean)
    environment, modules = json.loads(done.stdout)
    assert environment.items() >= TELEMETRY_OFF.items()
    assert not {"onnxruntime", "huggingface_hub", "haystack", "ray"} & set(modules)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_import_the_package_before_libraries_with_telemetry(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    lines = [
        line
        for cell in cells
        if cell["cell_type"] == "code"
        for line in "".join(cell["source"]).splitlines()
    ]
    imported = [
        line.split()[1].partition(".")[0] for line in lines if line.startswith(("import ", "from "))
    ]
    assert "rejoinder" in imported
    before = set(itertools.takewhile(lambda name: name != "rejoinder", imported))
    assert before <= {"matplotlib", "numpy", *sys.stdlib_module_names}
