"""Hard negatives in a run: when they are mined, for whom, and that a run goes on with those it had."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from rejoinder.errors import InputError
from rejoinder.training import loop, negatives
from rejoinder.training.checkpoint import load_checkpoint
from rejoinder.training.display import Silent
from rejoinder.training.loop import TrainingInterrupted, train
from rejoinder.training.mixing import MixedOrder
from rejoinder.training.negatives import Miner, Table, Tables, Window
from rejoinder.training.prepare import prepare
from rejoinder.training.recipe import HardNegatives, Recipe
from rejoinder.training.run_folder import RunFolder
from tests.training.test_loop import At, CrashError, crash, losses, same_weights
from tests.training.tiny import recipe, stage

ORDER = MixedOrder((30, 60), (0.25, 0.75), 12, (0, 0))


def tables(folder: Path, steps: int | None = 40, **keys: Any) -> Tables:
    return Tables(HardNegatives(**keys), ORDER, steps, folder, (0, 0))


def test_windows_by_steps_epochs_or_once(tmp_path: Path) -> None:
    by_steps = tables(tmp_path, every_steps=8)
    assert [by_steps.window(step) for step in (0, 7, 8, 39)] == [
        Window(0, 8), Window(0, 8), Window(8, 16), Window(32, 40)
    ]  # fmt: skip
    assert tables(tmp_path, every_epochs=0.5).window(6) == Window(5, 10), "10 batches take the target's 30 pairs once"
    assert tables(tmp_path).window(33) == Window(0, None)


def rows_of(given: Tables, stage_step: int, folder: Path) -> list[int]:
    """The pairs that are mined for."""
    seen: list[np.ndarray] = []

    def miner(rows: np.ndarray, *_: object) -> tuple[np.ndarray, int]:
        seen.append(rows)
        return np.zeros((len(rows), 1), np.int64), 0

    given.mine(stage_step, stage_step, miner, Silent(), lambda: None)  # type: ignore[arg-type]
    assert sorted(path.name for path in folder.iterdir()) == [f"step-{stage_step:08}.safetensors"]
    return seen[0].tolist()


def test_only_pairs_of_the_window_are_mined_for(tmp_path: Path) -> None:
    found = rows_of(tables(tmp_path, every_steps=3), 6, tmp_path)
    assert found == sorted({row for step in (6, 7, 8) for row in ORDER.rows(step).tolist()})


def test_the_last_window_ends_with_the_stage(tmp_path: Path) -> None:
    found = rows_of(tables(tmp_path, steps=8, every_steps=6), 6, tmp_path)
    assert found == sorted({row for step in (6, 7) for row in ORDER.rows(step).tolist()})


@pytest.mark.parametrize(("steps", "keys"), [(None, {}), (40, {}), (40, {"every_steps": 20})])
def test_a_window_longer_than_the_data_is_mined_for_all(
    tmp_path: Path, steps: int | None, keys: dict[str, Any]
) -> None:
    assert rows_of(tables(tmp_path, steps=steps, **keys), 0, tmp_path) == list(range(90))


def test_a_table_gives_the_negatives_of_its_rows_in_the_order_asked_for() -> None:
    table = Table(np.array([2, 5, 9]), np.array([[20, 21], [50, 51], [90, 91]]))
    assert table(np.array([9, 2, 9])).tolist() == [[90, 91], [20, 21], [90, 91]]
    for wrong in (4, 10, 0):
        with pytest.raises(InputError, match="of another run"):
            table(np.array([2, wrong]))


def mined(data: Path, /, **sections: Any) -> Recipe:
    """Two stages: one without, one that mines every 6 of its 15 steps."""
    hard = {"per_pair": 2, "pool": 200, "margin": 0.1, "every_steps": 6}
    stages = [stage(name="plain", steps=7), stage(name="hard", steps=15, hard_negatives=hard)]
    return recipe(data, **{"stage": stages, "checkpoint": {"every_steps": 4}} | sections)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    run = tmp_path_factory.mktemp("mined")
    train(mined(data), run)
    return run


def test_a_run_with_hard_negatives_learns_and_keeps_the_last_table(data: Path, uninterrupted: Path) -> None:
    assert [path.name for path in (uninterrupted / "hard_negatives").iterdir()] == ["step-00000019.safetensors"]
    table = load_file(uninterrupted / "hard_negatives" / "step-00000019.safetensors")
    order = MixedOrder((320,), (1.0,), 32, (0, 1))
    assert table["rows"].tolist() == sorted({row for step in (12, 13, 14) for row in order.rows(step).tolist()})
    assert table["negatives"].shape == (len(table["rows"]), 2)
    hashes = prepare(mined(data), uninterrupted / "tokens").train.response_hash
    assert (hashes[table["negatives"]] != hashes[table["rows"]][:, None]).all(), "equal texts are left out"


def test_hard_negatives_are_harder_than_those_of_the_batch(tmp_path: Path, data: Path) -> None:
    """The same steps with 64 more negatives of each context: the loss is higher than random ones would make it."""
    hard_negatives = {"per_pair": 2, "pool": 200}
    first, folders = stage(name="plain", steps=7), (tmp_path / "plain", tmp_path / "hard")
    for folder, keys in zip(folders, ({}, {"hard_negatives": hard_negatives}), strict=True):
        train(mined(data, stage=[first, stage(name="last", steps=1, **keys)]), folder)
    plain, hard = (losses(folder) for folder in folders)
    assert plain[:7] == hard[:7], "the first stage is the same"
    more = np.log((32 + 64) / 32)  # by how much a loss at random grows with the number of responses
    assert hard[7][1] > plain[7][1] + more


@pytest.mark.parametrize("step", [3, 8, 15, 20])
def test_a_run_that_dies_goes_on_bit_for_bit(tmp_path: Path, data: Path, uninterrupted: Path, step: int) -> None:
    """Mining comes before the steps 8, 14 and 20; checkpoints are written every 4 steps and after each mining."""
    with pytest.raises(CrashError):
        train(mined(data), tmp_path, display=At(step, crash))
    train(mined(data), tmp_path)
    assert losses(tmp_path) == losses(uninterrupted)
    assert same_weights(tmp_path, uninterrupted)


def test_a_run_that_goes_on_uses_the_table_that_was_written(
    tmp_path: Path, data: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CrashError):
        train(mined(data), tmp_path, display=At(16, crash))
    calls: list[int] = []
    mine = Tables.mine
    monkeypatch.setattr(Tables, "mine", lambda self, step, *rest: calls.append(step) or mine(self, step, *rest))
    train(mined(data), tmp_path)
    assert calls == [19], "that of step 13 is read"
    assert losses(tmp_path) == losses(uninterrupted)


@pytest.mark.parametrize("when", ["before the table", "before the checkpoint"])
def test_a_run_that_dies_while_it_mines_goes_on_bit_for_bit(
    tmp_path: Path, data: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    with monkeypatch.context() as patched:
        if when == "before the table":
            patched.setattr(negatives, "save_file", lambda *_: crash())
        else:
            patched.setattr(Tables, "forget_others", lambda *_: None)
            checkpoint = loop._Trainer._checkpoint
            patched.setattr(
                loop._Trainer,
                "_checkpoint",
                lambda self, stage: crash() if self.state.step == 13 else checkpoint(self, stage),
            )
        with pytest.raises(CrashError):
            train(mined(data), tmp_path)
    if when == "before the table":
        assert not list((tmp_path / "hard_negatives").iterdir()), "whole or not at all"
    train(mined(data), tmp_path)
    assert losses(tmp_path) == losses(uninterrupted)
    assert same_weights(tmp_path, uninterrupted)


def test_ctrl_c_while_mining_stops_at_once_and_goes_on(
    tmp_path: Path, data: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Miner.__call__

    def interrupted(self: Miner, *rest: Any) -> Any:
        if len(list((tmp_path / "hard_negatives").glob("step-*7.safetensors"))):  # the second mining
            signal.raise_signal(signal.SIGINT)
        return call(self, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Miner, "__call__", interrupted)
        with pytest.raises(TrainingInterrupted, match="stopped at step 13, checkpoint written"):
            train(mined(data), tmp_path)
    loaded = load_checkpoint(RunFolder(tmp_path).checkpoint)
    assert loaded is not None
    assert loaded.state.step == 13
    train(mined(data), tmp_path)
    assert losses(tmp_path) == losses(uninterrupted)


def test_a_table_that_is_gone_or_damaged_is_said_so(tmp_path: Path, data: Path) -> None:
    with pytest.raises(CrashError):
        train(mined(data), tmp_path, display=At(16, crash))
    (path,) = (tmp_path / "hard_negatives").iterdir()
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match=r"step-00000013.safetensors: not a whole table of hard negatives"):
        train(mined(data), tmp_path)
    path.unlink()
    with pytest.raises(InputError, match=r"step-00000013.safetensors is missing, so the run cannot go on"):
        train(mined(data), tmp_path)


def test_hard_negatives_of_a_mixture_and_of_a_budget_in_minutes(tmp_path: Path, data: Path) -> None:
    from tests.training.test_loop import Clock

    sets = {"train": str(data), "mix": [{"train": str(data), "share": 0.5}]}
    hard = {"pool": 300, "share": 0.95}
    only = stage(minutes=0.1, hard_negatives=hard)
    train(mined(data, data=sets, stage=[only], scale={"share": 0.1}), tmp_path, clock=Clock())
    table = load_file(tmp_path / "hard_negatives" / "step-00000000.safetensors")
    assert table["rows"].tolist() == list(range(640)), "how many steps there will be is not known"


@pytest.mark.parametrize(("keys", "said"), [
    ({"margin": 0.1, "share": 0.9}, "give at most one of margin, share; given: margin, share"),
    ({"every_steps": 3, "every_epochs": 1.0}, "give at most one of every_steps, every_epochs; given: every_steps, every_epochs"),
    ({"share": 1.5}, "stage.0.hard_negatives.share = 1.5 is not allowed"),
    ({"pool": 1}, "stage.0.hard_negatives.pool = 1 is not allowed"),
    ({"per_piar": 2}, "unknown key 'stage.0.hard_negatives.per_piar'; did you mean 'per_pair'?"),
])  # fmt: skip
def test_wrong_settings_teach(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        recipe("data", stage=[stage(hard_negatives=keys)])
    assert said in str(caught.value)


def test_a_pool_that_is_too_small_is_an_error_before_the_first_step(tmp_path: Path, data: Path) -> None:
    few = stage(hard_negatives={"per_pair": 10, "pool": 5})
    with pytest.raises(InputError, match=r"too few for hard_negatives\.per_pair = 10"):
        train(mined(data, stage=[few]), tmp_path)
