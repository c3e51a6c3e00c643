"""Negatives: mined ones are what a loop over all responses finds, given ones the data's, and runs go on with both."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from torch import Tensor

from rejoinder.corpora.build import build_data
from rejoinder.corpora.example import Example
from rejoinder.corpora.examples import write_examples
from rejoinder.errors import InputError
from rejoinder.models.packing import TokenBatch
from rejoinder.models.persistence import load
from rejoinder.training import loop, negatives
from rejoinder.training.batches import WHOLE, MixedOrder, PairBatch, make_step
from rejoinder.training.display import Display
from rejoinder.training.loop import TrainingInterrupted, train
from rejoinder.training.negatives import (
    GivenNegatives,
    KnownAnswers,
    Miner,
    Tables,
    hardest,
)
from rejoinder.training.prepare import prepare
from rejoinder.training.recipe import HardNegatives, Recipe
from rejoinder.training.tokens import TokenStore
from tests.training.test_batches import store
from tests.training.test_loop import At, Clock, CrashError, crash, losses, same_weights
from tests.training.tiny import checkpoint_of, recipe, stage
from tests.training.transformers import letters, transformer_recipe, write_checkpoint

D, WORDS = 6, 40


class Model:
    """A text of one token has a fixed random vector, another one on each side."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.tables = torch.nn.functional.normalize(torch.randn(2, WORDS, D, generator=generator), dim=2)

    def encode(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        ids = batch.tokens.ids[batch.tokens.restore]
        return self.tables[0][ids[: batch.pairs]], self.tables[1][ids[batch.pairs :]]

    def encode_responses(self, batch: TokenBatch) -> Tensor:
        return self.tables[1][batch.ids[batch.restore]]

    def miner(self, inputs: list[int], responses: list[int], config: HardNegatives) -> Miner:
        return Miner(examples(inputs, responses), config, self.encode, self.encode_responses, WORDS)


def examples(inputs: list[int], responses: list[int]) -> TokenStore:
    return store([[word] for word in inputs], [[word] for word in responses])


def by_loop(
    model: Model, inputs: list[int], responses: list[int], drawn: list[int], config: HardNegatives
) -> list[list[int]]:
    """For each pair the words of its hard negatives, one candidate after the other."""
    known = set(zip(inputs, responses, strict=True))
    pool = list(dict.fromkeys(responses[i] for i in drawn))
    found = []
    for word, right in zip(inputs, responses, strict=True):
        score = {w: float(model.tables[0][word].double() @ model.tables[1][w].double()) for w in {*pool, right}}
        limit = np.inf
        if config.margin is not None:
            limit = score[right] + config.margin
        if config.share is not None:
            limit = score[right] - (1 - config.share) * abs(score[right])
        wrong = sorted((w for w in pool if (word, w) not in known), key=lambda w: -score[w])
        below, above = [w for w in wrong if score[w] <= limit], [w for w in wrong if score[w] > limit]
        found.append([*below, *reversed(above)][: config.per_pair])
    return found


@settings(max_examples=100, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, WORDS - 1)), min_size=8, max_size=40),
    kind=st.sampled_from([{}, {"margin": 0.1}, {"margin": -0.2}, {"share": 0.95}, {"share": 1.0}]),
    k=st.integers(1, 4),
    seed=st.integers(0, 100),
    draw=st.data(),
)
def test_it_finds_what_a_loop_over_the_pool_finds(
    pairs: list[tuple[int, int]], kind: dict[str, Any], k: int, seed: int, draw: st.DataObject
) -> None:
    inputs, responses = map(list, zip(*pairs, strict=True))
    drawn = sorted(draw.draw(st.sets(st.integers(0, len(pairs) - 1), min_size=4)))
    config, model = HardNegatives(per_pair=k, **kind), Model(seed)
    miner = model.miner(inputs, responses, config)
    expected = by_loop(model, inputs, responses, drawn, config)
    if min(map(len, expected)) < k:
        with pytest.raises(InputError, match=r"too few for hard_negatives\.per_pair"):
            miner(np.arange(len(pairs)), np.array(drawn), int)
        return
    mined_, _ = miner(np.arange(len(pairs)), np.array(drawn), int)
    assert mined_.shape == (len(pairs), k)
    for word, wanted, found in zip(inputs, expected, mined_, strict=True):
        words = [responses[row] for row in found]
        assert words == wanted
        assert all((word, w) not in set(pairs) for w in words), "a known answer is no negative"
        assert set(found.tolist()) <= set(drawn), "all come from the pool"


def test_many_blocks_give_the_same_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    generator, rows = np.random.default_rng(1), np.arange(200)
    inputs, responses = generator.integers(0, 10, 200).tolist(), generator.integers(0, WORDS, 200).tolist()
    miner = Model(3).miner(inputs, responses, HardNegatives(per_pair=3, margin=0.1))
    done: list[int] = []
    whole = miner(rows, rows, done.append)
    assert sum(done) == 400
    for name, value in (("PAIRS_AT_ONCE", 7), ("HASHED_AT_ONCE", 9), ("SCORES_AT_ONCE", 100)):
        monkeypatch.setattr(negatives, name, value)
        again = miner(rows, rows, int)
        assert (again[0].tolist(), again[1]) == (whole[0].tolist(), whole[1])


SCORES = torch.tensor([[0.9, 0.1, 0.5, -0.8, 0.7]])


@pytest.mark.parametrize(("limit", "right", "expected", "above"), [
    (1.0, [], [0, 4, 2], 0),
    (0.8, [], [4, 2, 1], 0),
    (0.8, [4, 1], [2, 3, 0], 1),
    (0.0, [], [3, 1, 2], 2),
    (-1.0, [3], [1, 2, 4], 3),
])  # fmt: skip
def test_the_hardest_up_to_the_limit_and_then_the_nearest_above_it(
    limit: float, right: list[int], expected: list[int], above: int
) -> None:
    known = np.array([[0] * len(right), right], dtype=np.int64)
    places, count = hardest(SCORES, torch.tensor([limit]), known, 3)
    assert (places.tolist(), count) == ([expected], above)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=20),
    st.lists(st.integers(-7, 7), min_size=1, unique=True),
    st.lists(st.integers(-6, 6), max_size=8),
)
def test_known_answers_are_those_of_the_pairs(
    pairs: list[tuple[int, int]], pool: list[int], asked: list[int]
) -> None:
    inputs, responses = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    found = KnownAnswers(inputs, responses, np.array(pool, np.int64)).places(np.array(asked, np.int64))
    expected = {(i, pool.index(r)) for i, word in enumerate(asked) for w, r in pairs if w == word and r in pool}
    assert set(zip(*found.tolist(), strict=True)) == expected


# --- Windows and their tables ----------------------------------------------------------------------------------------

ORDER = MixedOrder((30, 60), (0.25, 0.75), 12, (0, 0))


def tables(folder: Path, steps: int | None = 40, **keys: Any) -> Tables:
    return Tables(HardNegatives(**keys), ORDER, steps, folder, (0, 0))


@pytest.mark.parametrize(("begin", "steps", "keys", "wanted"), [
    (6, 40, {"every_steps": 3}, (6, 7, 8)),
    (6, 8, {"every_steps": 6}, (6, 7)),
    (0, None, {}, None),
    (0, 40, {}, None),
    (0, 40, {"every_steps": 20}, None),
], ids=["window", "last window", "minutes", "once", "longer than the data"])  # fmt: skip
def test_it_is_mined_for_the_pairs_of_the_window(
    tmp_path: Path, begin: int, steps: int | None, keys: dict[str, Any], wanted: tuple[int, ...] | None
) -> None:
    """Or for all, where the window goes over them more than once, or nobody knows."""
    seen: list[np.ndarray] = []

    def miner(rows: np.ndarray, *_: object) -> tuple[np.ndarray, int]:
        seen.append(rows)
        return np.zeros((len(rows), 1), np.int64), 0

    tables(tmp_path, steps, **keys).mine(begin, begin, miner, Display(), lambda: None)  # type: ignore[arg-type]
    expected = range(90) if wanted is None else sorted({row for step in wanted for row in ORDER.rows(step).tolist()})
    assert seen[0].tolist() == list(expected)
    assert [path.name for path in tmp_path.iterdir()] == [f"step-{begin:08}.safetensors"]


# --- Runs with mined ones --------------------------------------------------------------------------------------------


def mined(data: Path, /, **sections: Any) -> Recipe:
    """Two stages: one without, one that mines every 6 of its 15 steps: before the steps 8, 14 and 20."""
    hard = {"per_pair": 2, "pool": 200, "margin": 0.1, "every_steps": 6}
    stages = [stage(name="plain", steps=7), stage(name="hard", steps=15, hard_negatives=hard)]
    return recipe(data, **{"stage": stages, "checkpoint": {"every_steps": 4}} | sections)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    run = tmp_path_factory.mktemp("mined")
    train(mined(data), run)
    return run


def test_a_run_with_hard_negatives_keeps_the_last_table(data: Path, uninterrupted: Path) -> None:
    assert [path.name for path in (uninterrupted / "hard_negatives").iterdir()] == ["step-00000019.safetensors"]
    table = load_file(uninterrupted / "hard_negatives" / "step-00000019.safetensors")
    order = MixedOrder((320,), (1.0,), 32, (0, 1))
    assert table["rows"].tolist() == sorted({row for step in (12, 13, 14) for row in order.rows(step).tolist()})
    assert table["negatives"].shape == (len(table["rows"]), 2)
    hashes = prepare(mined(data), uninterrupted / "tokens").train.response_hash
    assert (hashes[table["negatives"]] != hashes[table["rows"]][:, None]).all(), "equal texts are left out"


@pytest.mark.parametrize("step", [8, 16])
def test_a_run_that_dies_goes_on_bit_for_bit_with_the_table_that_was_written(
    tmp_path: Path, data: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    with pytest.raises(CrashError):
        train(mined(data), tmp_path, display=At(step, crash))
    calls: list[int] = []
    mine = Tables.mine
    monkeypatch.setattr(Tables, "mine", lambda self, step, *rest: calls.append(step) or mine(self, step, *rest))
    train(mined(data), tmp_path)
    assert calls == ([13, 19] if step == 8 else [19]), "that of step 7 or 13 is read"
    assert losses(tmp_path) == losses(uninterrupted)
    assert same_weights(tmp_path, uninterrupted)


@pytest.mark.parametrize("when", ["before the table", "before the checkpoint"])
def test_a_run_that_dies_while_it_mines_goes_on_bit_for_bit(
    tmp_path: Path, data: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    checkpoint = loop.Trainer._checkpoint
    with monkeypatch.context() as patched:
        if when == "before the table":
            patched.setattr(negatives, "save_file", lambda *_: crash())
        else:
            patched.setattr(Tables, "forget_others", lambda *_: None)
            patched.setattr(
                loop.Trainer,
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
    assert checkpoint_of(tmp_path).state.step == 13
    train(mined(data), tmp_path)
    assert losses(tmp_path) == losses(uninterrupted)


def test_a_table_that_is_gone_or_damaged_is_refused(tmp_path: Path, data: Path) -> None:
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
    sets = {"train": str(data), "mix": [{"train": str(data), "share": 0.5}]}
    only = stage(minutes=0.05, hard_negatives={"pool": 300, "share": 0.95})
    train(mined(data, data=sets, stage=[only], scale={"share": 0.1}), tmp_path, clock=Clock())
    table = load_file(tmp_path / "hard_negatives" / "step-00000000.safetensors")
    assert table["rows"].tolist() == list(range(640)), "how many steps there will be is not known"


def test_a_pool_that_is_too_small_is_an_error_before_the_first_step(tmp_path: Path, data: Path) -> None:
    few = stage(hard_negatives={"per_pair": 10, "pool": 5})
    with pytest.raises(InputError, match=r"too few for hard_negatives\.per_pair = 10"):
        train(mined(data, stage=[few]), tmp_path)


# --- Given with the data ---------------------------------------------------------------------------------------------

LETTERS = "abcdefghijklmnopqrst"


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("start") / "bert")


def example(number: int, split: str, count: int = 20) -> Example:
    """The answer repeats the question's letter; it stands at another place of each list."""
    right, label = LETTERS[number % 20], number % count
    others = [word for word in LETTERS if word != right][: count - 1]
    candidates = (*others[:label], right, *others[label:])
    return Example((f"say {right}",), right, thread=f"{split}{number}", candidates=candidates, label=label)


def write(folder: Path, counts: tuple[int, ...] = (20,)) -> Path:
    for split, size in (("train", 40), ("valid", 20)):
        made = [example(i, split, counts[i % len(counts)]) for i in range(size)]
        write_examples(made, folder / f"{split}-00000.parquet")
    return folder


def given_recipe(data: Path, start: Path, kind: str = "cross-encoder", **changes: Any) -> Recipe:
    stages = [stage(batch_size=4, negatives=0, given_negatives=True, **changes)]
    validation = {"candidates": 20, "examples": 20}
    return transformer_recipe(data, start, {"kind": kind}, stage=stages, validation=validation)


def test_each_example_meets_its_own_list(tmp_path: Path, start: Path) -> None:
    """Of a context's 20 joined texts the first ends in its response, the others in the wrong candidates, in order."""
    further = GivenNegatives(prepare(given_recipe(write(tmp_path / "data"), start), tmp_path / "tokens").train)
    rows = np.array([3, 7])
    batch = make_step(further.store, rows, 0, further=further, portion=WHOLE, packing="joined").parts[0].tokens
    starts, lengths = batch.places()
    last = batch.ids[starts + lengths - 2]  # before the mark at the end
    letter = {code: text for text, code in letters().description["model"]["vocab"].items()}
    found = [letter[int(code)] for code in last]
    for number, texts in zip(rows.tolist(), (found[:20], found[20:]), strict=True):
        whole = example(number, "train")
        assert texts == [whole.response, *(text for text in whole.candidates if text != whole.response)]


@pytest.mark.parametrize("kind", ["cross-encoder", "bi-encoder"])
def test_convai2s_file_is_trained_on(tmp_path: Path, start: Path, kind: str) -> None:
    """From ParlAI's format, with 19 wrong candidates a line, to a trained model."""
    others = "|".join(f"{word} {word}" for word in LETTERS[1:])
    files = []
    for split, dialogues in (("train", range(20)), ("valid", range(20, 40))):
        lines = []
        for dialogue in dialogues:
            lines.append(f"1 your persona: i like {LETTERS[dialogue % 20]} .")
            for turn in (2, 3):
                answer = f"yes {dialogue} {turn}"
                lines.append(f"{turn} hello {dialogue} {turn}\t{answer}\t\t{others}|{answer}")
        source = tmp_path / f"{split}_self_original.txt"
        source.write_text("\n".join(lines) + "\n", encoding="utf-8")
        files.append(f"{split}={source}")
    build_data("convai2", files, tmp_path / "data")
    made = given_recipe(tmp_path / "data", start, kind, steps=3)
    kept = prepare(made, tmp_path / "tokens").train.given
    assert kept.count == 19
    assert train(made, tmp_path / "run").steps == 3
    scores = load(tmp_path / "run" / "model").score([["say a"]], [["a", "b", "c"]])
    assert np.isfinite(scores).all()


def test_data_without_lists_or_with_unequal_ones_is_refused(tmp_path: Path, start: Path, data: Path) -> None:
    with pytest.raises(InputError, match="no candidates"):
        train(given_recipe(data, start), tmp_path / "one")
    with pytest.raises(InputError, match="one length"):
        train(given_recipe(write(tmp_path / "data", (20, 4)), start), tmp_path / "two")
