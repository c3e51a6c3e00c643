"""`rejoinder tokenise`: what it makes ahead, `rejoinder train` finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from rejoinder.cli.shell import guarded
from rejoinder.cli.tokenise import tokenise
from rejoinder.training import prepare as prepare_module
from rejoinder.training.prepare import prepare
from rejoinder.training.recipe_files import load_recipe, save_recipe
from tests.training.tiny import recipe, write_data


def run(*arguments: object) -> int:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(guarded(tokenise))
    with pytest.raises(SystemExit) as ended:
        app([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def test_training_finds_what_was_tokenised_ahead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, cache = write_data(tmp_path / "data"), tmp_path / "cache"
    save_recipe(recipe(""), tmp_path / "tiny.toml")
    assert run(tmp_path / "tiny.toml", "--data", data, "-o", cache, "--processes", "2", "--json") == 0
    counts = json.loads(capsys.readouterr().out)["examples"]
    monkeypatch.setattr(prepare_module, "build_store", None)
    monkeypatch.setattr(prepare_module, "build_vocabulary", None)
    settings = [f"data.train={json.dumps(str(data))}", f"data.cache={json.dumps(str(cache))}"]
    prepared = prepare(load_recipe(tmp_path / "tiny.toml", settings), tmp_path / "run")
    assert prepared.valid is not None
    assert (len(prepared.train), len(prepared.valid)) == (counts["train"], counts["valid"])
    assert not (tmp_path / "run").exists()


def test_bad_input_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_recipe(recipe(""), tmp_path / "tiny.toml")
    assert run(tmp_path / "tiny.toml", "-o", tmp_path / "cache") == 2
    assert "no data to train on: give --data DIR" in capsys.readouterr().err
    assert run(tmp_path / "tiny.toml", "-o", tmp_path / "cache", "--engine", "ray", "--processes", 2) == 2
    assert "--processes is for this machine" in capsys.readouterr().err
