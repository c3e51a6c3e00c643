"""The run's folder: of this recipe or refused, one process at a time, tidied after a kill."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from rejoinder.errors import InputError
from rejoinder.training import run_folder
from rejoinder.training.recipe import Recipe
from rejoinder.training.recipe_files import load_recipe, save_recipe
from rejoinder.training.run_folder import open_run
from tests.models.small import small_model
from tests.training.tiny import recipe


def test_a_new_folder_gets_the_resolved_recipe(tmp_path: Path) -> None:
    with open_run(tmp_path / "a" / "run", recipe("data")) as folder:
        assert load_recipe(folder.recipe) == recipe("data")


def test_the_same_recipe_opens_it_again_even_if_the_data_moved(tmp_path: Path) -> None:
    for place in ("data", "elsewhere"):
        with open_run(tmp_path, recipe(place)):
            pass


def test_another_recipe_is_refused_by_its_first_differing_key(tmp_path: Path) -> None:
    with open_run(tmp_path / "run", recipe("data")):
        pass
    other = recipe("data", loss={"smoothing": 0.1})
    said = r"another recipe: loss.smoothing was 0.2 and is now 0.1; name another folder"
    with pytest.raises(InputError, match=said), open_run(tmp_path / "run", other):
        pass


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_no_run_is_left_alone(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "thing"
    if kind == "file":
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match=r"another folder|name a folder"), open_run(place, recipe("data")):
        pass
    kept = place if kind == "file" else place / "letter.txt"
    assert kept.read_text() == "mine"


def test_two_processes_cannot_train_in_one_folder(tmp_path: Path) -> None:
    first, second = open_run(tmp_path, recipe("data")), open_run(tmp_path, recipe("data"))
    with first, pytest.raises(InputError, match="another process"), second:
        pass
    with open_run(tmp_path, recipe("data")):
        pass


def test_of_two_that_begin_a_new_folder_at_once_one_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one begins when the first has looked at the folder and not written its recipe yet."""
    entered, refused = [], []
    with contextlib.ExitStack() as stack:

        def begin(name: str) -> None:
            try:
                stack.enter_context(open_run(tmp_path / "run", recipe("data")))
                entered.append(name)
            except InputError as error:
                refused.append(str(error))

        def late(wanted: Recipe, path: Path) -> None:
            monkeypatch.setattr(run_folder, "save_recipe", save_recipe)
            begin("the other one")
            save_recipe(wanted, path)

        monkeypatch.setattr(run_folder, "save_recipe", late)
        begin("the first")
    assert entered == ["the first"]
    assert refused == [f"{tmp_path / 'run'} is being trained by another process; wait until that is done, or stop it"]


@pytest.mark.parametrize("left", [".recipe.toml.ab12cd34.part", ".lock"])
def test_a_run_begins_where_one_was_killed_before_it_had_a_recipe(tmp_path: Path, left: str) -> None:
    (tmp_path / left).touch()
    with open_run(tmp_path, recipe("data")):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]


def test_a_model_folder_with_notes_in_it_is_refused_before_the_training(tmp_path: Path) -> None:
    with open_run(tmp_path, recipe("data")) as folder:
        small_model(folder.model)
    (folder.model / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds notes\.txt"), open_run(tmp_path, recipe("data")):
        pass


def test_leftovers_of_a_killed_process_go(tmp_path: Path) -> None:
    with open_run(tmp_path, recipe("data")) as folder:
        folder.checkpoint.parent.mkdir()
        (folder.checkpoint.parent / ".last.safetensors.x1.part").write_text("half")
        (folder.tokens / ".train-1.x2.part").mkdir(parents=True)
        (tmp_path / ".model.x3.part").mkdir()
    with open_run(tmp_path, recipe("data")):
        assert sorted(path.name for path in tmp_path.rglob("*")) == [".lock", "checkpoint", "recipe.toml", "tokens"]


def test_a_model_that_was_about_to_be_replaced_comes_back(tmp_path: Path) -> None:
    with open_run(tmp_path, recipe("data")) as folder:
        old, new = tmp_path / ".model.x.old", tmp_path / ".model.x.part"
        small_model(old)
        new.mkdir()
    with open_run(tmp_path, recipe("data")):
        assert (folder.model / "config.json").is_file()
        assert not old.exists()
        assert not new.exists()


def test_a_full_disk_found_while_a_log_is_written_names_the_run(tmp_path: Path) -> None:
    """An open file does not tell its name: /dev/full stands for metrics.jsonl."""
    run = open_run(tmp_path / "run", recipe("data"))
    with pytest.raises(OSError, match="No space") as caught, run, Path("/dev/full").open("w") as metrics:
        metrics.write("step")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "run"))
