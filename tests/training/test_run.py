"""A run on disk: of this recipe or refused, one process at a time, tidied after a kill; checkpoints bring all back."""

import contextlib
import errno
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from rejoinder.corpora.schema import Example
from rejoinder.encoders.families import build_module
from rejoinder.errors import InputError
from rejoinder.training.recipe.optimization import build_optimizer, prepare_stage
from rejoinder.settings import find_recipe
from rejoinder.training.recipe_files import load_recipe, resolve_recipe, save_recipe
from rejoinder.training.run import checkpoint as checkpoints
from rejoinder.training.run import folder as folders
from rejoinder.training.run.checkpoint import load_checkpoint, save_checkpoint
from rejoinder.training.run.folder import open_run
from rejoinder.training.run.state import RunState
from tests.encoders.small import small_model
from tests.training.tiny import MODEL, recipe, stage


def test_a_new_folder_gets_the_resolved_recipe_and_opens_again_with_moved_data_not_with_another_recipe(
    tmp_path,
):
    with open_run(tmp_path / "a" / "run", recipe("data")) as folder:
        assert load_recipe(folder.recipe) == recipe("data")
    small_model(folder.model)
    with open_run(tmp_path / "a" / "run", recipe("elsewhere")):
        pass
    other = recipe("data", loss={"smoothing": 0.1})
    said = r"another recipe: loss.smoothing was 0.2 and is now 0.1; name another folder"
    with pytest.raises(InputError, match=said), open_run(tmp_path / "a" / "run", other):
        pass


def test_a_run_that_has_learned_nothing_takes_another_recipe(tmp_path):
    with open_run(tmp_path, recipe("data")) as folder:
        folder.metrics.write_text('{"step": 0}\n')
        folder.tensorboard.mkdir()
    other = recipe("data", loss={"smoothing": 0.1})
    with open_run(tmp_path, other):
        assert load_recipe(folder.recipe) == other
        assert {path.name for path in tmp_path.iterdir()} == {".lock", "recipe.toml"}


def test_the_log_of_a_finished_run_whose_model_was_moved_stays(tmp_path):
    with open_run(tmp_path, recipe("data")) as folder:
        folder.metrics.write_text('{"step": 9}\n')
        folder.summary.write_text("{}")
    with open_run(tmp_path, recipe("data")):
        assert folder.metrics.read_text() == '{"step": 9}\n'


def test_of_two_that_begin_a_new_folder_at_once_one_trains(tmp_path, monkeypatch):
    """The other one begins when the first has looked at the folder and not written its recipe yet."""
    entered, refused = [], []
    with contextlib.ExitStack() as stack:

        def begin(name):
            try:
                stack.enter_context(open_run(tmp_path / "run", recipe("data")))
                entered.append(name)
            except InputError as error:
                refused.append(str(error))

        def late(wanted, path):
            monkeypatch.setattr(folders, "save_recipe", save_recipe)
            begin("the other one")
            save_recipe(wanted, path)

        monkeypatch.setattr(folders, "save_recipe", late)
        begin("the first")
    assert entered == ["the first"]
    assert refused == [
        f"{tmp_path / 'run'} is being trained by another process, or another thread of this one; wait until that is done, or stop it"
    ]


def test_a_model_folder_with_notes_in_it_is_refused_before_the_training(tmp_path):
    with open_run(tmp_path, recipe("data")) as folder:
        small_model(folder.model)
    (folder.model / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds notes\.txt"), open_run(tmp_path, recipe("data")):
        pass


@pytest.mark.parametrize("left", [".recipe.toml.ab12cd34.part", ".lock"])
def test_a_run_begins_where_one_was_killed_before_it_had_a_recipe(tmp_path, left):
    (tmp_path / left).touch()
    with open_run(tmp_path, recipe("data")):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]


def test_leftovers_of_a_killed_process_go_and_a_model_that_was_about_to_be_replaced_comes_back(
    tmp_path,
):
    with open_run(tmp_path, recipe("data")) as folder:
        folder.checkpoint.parent.mkdir()
        (folder.checkpoint.parent / ".last.safetensors.x1.part").write_text("half")
        (folder.tokens / ".train-1.x2.part").mkdir(parents=True)
        small_model(tmp_path / ".model.x.old")
        (tmp_path / ".model.x.part").mkdir()
    with open_run(tmp_path, recipe("data")):
        names = {path.name for path in tmp_path.rglob("*") if folder.model not in path.parents}
        assert names == {".lock", "checkpoint", "model", "recipe.toml", "tokens"}
        assert (folder.model / "config.json").is_file()


def test_a_full_disk_found_while_a_log_is_written_names_the_run(tmp_path):
    """An open file does not tell its name: /dev/full stands for metrics.jsonl."""
    run = open_run(tmp_path / "run", recipe("data"))
    with (
        pytest.raises(OSError, match="No space") as caught,
        run,
        Path("/dev/full").open("w") as metrics,
    ):
        metrics.write("step")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "run"))


def test_a_recipe_is_a_file_or_a_name_and_may_be_overridden(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = resolve_recipe("convert-quick", ["a", "b"][:1], {"stage.0.minutes": 2, "name": "mine"})
    assert (small.name, small.data.train, small.stage[0].minutes) == ("mine", "a", 2)
    assert resolve_recipe(small, "b").data.train == "b"
    mixed = recipe("a", data={"train": "a", "mix": [{"train": "b", "share": 0.5}]})
    moved = resolve_recipe(mixed, [Path("c"), Path("d")])
    assert (moved.data.train, moved.data.mix[0].train) == ("c", "d")
    assert resolve_recipe(small) is small
    Path("convert-quick").write_text("")
    assert find_recipe("convert-quick") == Path("convert-quick"), "a file wins"
    with pytest.raises(InputError, match="no such recipe"):
        resolve_recipe("convert-tiny")
    for given in ([Example(("a",), "b")], Example(("a",), "b"), 3, ["a", None]):
        with pytest.raises(InputError, match=r"name data by a folder or file of examples, .*; given: "):
            resolve_recipe("convert-quick", given)


def setting(kind, seed, **changes):
    torch.manual_seed(seed)
    module = build_module({**MODEL, **changes}, 20)
    config = recipe("data", stage=[stage(active_blocks=1, optimizer=kind)]).stage[0]
    prepare_stage(module, config)
    return module, build_optimizer(module, config)


def test_the_state_the_loss_scaling_and_shared_parameters_come_back(tmp_path):
    assert load_checkpoint(tmp_path / "c") is None
    sums = {"loss": 1e-17, "accuracy": 0.5}
    state = RunState(
        step=9, stage=1, stage_seconds=0.1 + 0.2, best=1 / 3, validation={"mrr": 0.7}, sums=sums
    )
    module, _ = setting("sgd", 0, feed_forward_2="original")
    save_checkpoint(tmp_path / "c", state, module, None, {"scale": 65536.0, "_growth_tracker": 3})
    loaded = load_checkpoint(tmp_path / "c")
    assert (loaded.state, loaded.scaler) == (state, {"scale": 65536.0, "_growth_tracker": 3})
    other, _ = setting("sgd", 1, feed_forward_2="original")
    loaded.restore_module(other)
    assert all(
        torch.equal(a, b) for a, b in zip(module.parameters(), other.parameters(), strict=True)
    )


@pytest.mark.parametrize(
    "content", [b"", b"garbage that is long enough", b"\x02\x00\x00\x00\x00\x00\x00\x00{}", None]
)
def test_a_damaged_one_is_refused(tmp_path, content):
    path = tmp_path / "c"
    save_checkpoint(path, RunState(), setting("sgd", 0)[0], None, {})
    path.write_bytes(path.read_bytes()[:-100] if content is None else content)
    with pytest.raises(InputError, match="not a whole checkpoint"):
        load_checkpoint(path)


def test_a_flipped_bit_is_never_trained_on(tmp_path):
    """Most bits of a checkpoint are numbers of which every one is a number."""
    path = tmp_path / "c"
    module, optimizer = setting("adamw", 0)
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    save_checkpoint(path, RunState(step=1, best=0.5), module, optimizer, {})
    content, whole = path.read_bytes(), load_checkpoint(path)
    header = 8 * int.from_bytes(content[:8], "little")
    refused = 0
    for bit in [*range(64, header, 499), *range(header, 8 * len(content), 8 * len(content) // 30)]:
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            found = load_checkpoint(path)
        except InputError:
            refused += 1
            continue
        assert found is not None  # white space of the header: nothing has changed
        assert found.state == whole.state
        assert found.tensors.keys() == whole.tensors.keys()
        assert all(torch.equal(found.tensors[name], value) for name, value in whole.tensors.items())
    assert refused > 40


def test_a_full_disk_leaves_the_last_one(tmp_path, monkeypatch):
    path = tmp_path / "last.safetensors"
    module, _ = setting("sgd", 0)
    save_checkpoint(path, RunState(step=1), module, None, {})

    def full(tensors, part, metadata):  # noqa: ARG001
        part.write_bytes(b"half of it")
        raise SafetensorError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        )

    monkeypatch.setattr(checkpoints, "save_file", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*last\.safetensors'"):
        save_checkpoint(path, RunState(step=2), module, None, {})
    assert load_checkpoint(path).state.step == 1
    assert list(tmp_path.iterdir()) == [path]
