"""Negatives: mined ones are what a loop over all responses finds, given ones the data's, and runs go on with both."""

import itertools
import signal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from rejoinder.corpora.schema import Example
from rejoinder.corpora.forms.examples import write_examples
from rejoinder.encoders.persistence import load
from rejoinder.errors import InputError
from rejoinder.training import loop, negatives
from rejoinder.training.data.batches import WHOLE, MixedOrder, make_step
from rejoinder.training.display import Display
from rejoinder.training.loop import TrainingInterrupted, train
from rejoinder.training.negatives import GivenNegatives, Miner, Tables
from rejoinder.training.recipe.stages import HardNegatives
from rejoinder.training.preparation.inputs import prepare
from tests.training.test_batches import store
from tests.training.test_loop import At, Clock, CrashError, crash, losses, same_weights
from tests.training.tiny import checkpoint_of, recipe, stage
from tests.training.transformers import letters, transformer_recipe, write_checkpoint

D, WORDS = 6, 40
LETTERS = "abcdefghijklmnopqrst"


class Model:
    """A text of one token has a fixed random vector, another one on each side."""

    def __init__(self, seed):
        generator = torch.Generator().manual_seed(seed)
        self.tables = torch.nn.functional.normalize(
            torch.randn(2, WORDS, D, generator=generator), dim=2
        )

    def encode(self, batch):
        ids = batch.tokens.ids[batch.tokens.restore]
        return self.tables[0][ids[: batch.pairs]], self.tables[1][ids[batch.pairs :]]

    def encode_responses(self, batch):
        return self.tables[1][batch.ids[batch.restore]]

    def miner(self, inputs, responses, config):
        return Miner(examples(inputs, responses), config, self.encode, self.encode_responses, WORDS)


def examples(inputs, responses):
    return store([[word] for word in inputs], [[word] for word in responses])


def by_loop(model, inputs, responses, drawn, config):
    """For each pair the words of its hard negatives, one candidate after the other."""
    known = set(zip(inputs, responses, strict=True))
    pool = list(dict.fromkeys(responses[i] for i in drawn))
    found = []
    for word, right in zip(inputs, responses, strict=True):
        score = {
            w: float(model.tables[0][word].double() @ model.tables[1][w].double())
            for w in {*pool, right}
        }
        limit = np.inf
        if config.margin is not None:
            limit = score[right] + config.margin
        if config.share is not None:
            limit = score[right] - (1 - config.share) * abs(score[right])
        wrong = sorted((w for w in pool if (word, w) not in known), key=lambda w: -score[w])
        below, above = (
            [w for w in wrong if score[w] <= limit],
            [w for w in wrong if score[w] > limit],
        )
        found.append([*below, *reversed(above)][: config.per_pair])
    return found


@settings(max_examples=100)
@given(
    pairs=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, WORDS - 1)), min_size=8, max_size=40
    ),
    kind=st.sampled_from([{}, {"margin": 0.1}, {"margin": -0.2}, {"share": 0.95}, {"share": 1.0}]),
    k=st.integers(1, 4),
    seed=st.integers(0, 100),
    at_once=st.sampled_from([7, 1 << 20]),
    draw=st.data(),
)
def test_it_finds_what_a_loop_over_the_pool_finds(pairs, kind, k, seed, at_once, draw):
    """Whatever is computed at once."""
    inputs, responses = map(list, zip(*pairs, strict=True))
    drawn = sorted(draw.draw(st.sets(st.integers(0, len(pairs) - 1), min_size=4)))
    config, model = HardNegatives(per_pair=k, **kind), Model(seed)
    miner = model.miner(inputs, responses, config)
    expected = by_loop(model, inputs, responses, drawn, config)
    if min(map(len, expected)) < k:
        with pytest.raises(InputError, match=r"too few for hard_negatives\.per_pair"):
            miner(np.arange(len(pairs)), np.array(drawn), int)
        return
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PAIRS_AT_ONCE", "HASHED_AT_ONCE", "SCORES_AT_ONCE"):
            patch.setattr(negatives, name, at_once)
        mined_, _ = miner(np.arange(len(pairs)), np.array(drawn), int)
    assert mined_.shape == (len(pairs), k)
    for word, wanted, found in zip(inputs, expected, mined_, strict=True):
        words = [responses[row] for row in found]
        assert words == wanted
        assert all((word, w) not in set(pairs) for w in words), "a known answer is not a negative"
        assert set(found.tolist()) <= set(drawn), "all come from the pool"


def mined(data, /, **sections):
    """Two stages: one without, one that mines every 6 of its 15 steps: before the steps 8, 14 and 20."""
    hard = {"per_pair": 2, "pool": 200, "margin": 0.1, "every_steps": 6}
    stages = [stage(name="plain", steps=7), stage(name="hard", steps=15, hard_negatives=hard)]
    return recipe(data, **{"stage": stages, "checkpoint": {"every_steps": 4}} | sections)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, data):
    run = tmp_path_factory.mktemp("mined")
    train(mined(data), run)
    return run


def test_a_run_with_hard_negatives_keeps_the_last_table(data, uninterrupted):
    assert [path.name for path in (uninterrupted / "hard_negatives").iterdir()] == [
        "step-00000019.safetensors"
    ]
    table = load_file(uninterrupted / "hard_negatives" / "step-00000019.safetensors")
    order = MixedOrder((320,), (1.0,), 32, (0, 1))
    assert table["rows"].tolist() == sorted(
        {row for step in (12, 13, 14) for row in order.rows(step).tolist()}
    )
    assert table["negatives"].shape == (len(table["rows"]), 2)
    hashes = prepare(mined(data), uninterrupted / "tokens").train.response_hash
    assert (hashes[table["negatives"]] != hashes[table["rows"]][:, None]).all(), (
        "equal texts are left out"
    )


def die_before_the_table(patch):
    patch.setattr(negatives, "save_file", lambda *_: crash())


def die_before_the_checkpoint(patch):
    checkpoint = loop.Trainer._checkpoint
    patch.setattr(Tables, "forget_others", lambda *_: None)
    patch.setattr(
        loop.Trainer,
        "_checkpoint",
        lambda self, stage: crash() if self.state.step == 13 else checkpoint(self, stage),
    )


def die_in_the_window(patch):
    patch.setattr(Display, "show", lambda _, progress: crash() if progress.step == 16 else None)


def interrupt_the_second_mining(patch):
    call, calls = Miner.__call__, itertools.count(1)

    def interrupted(self, *rest):
        if next(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return call(self, *rest)

    patch.setattr(Miner, "__call__", interrupted)


@pytest.mark.parametrize(
    ("end", "step", "mined_again"),
    [
        (die_before_the_table, 7, [7, 13, 19]),
        (die_before_the_checkpoint, 12, [19]),
        (interrupt_the_second_mining, 13, [13, 19]),
        (die_in_the_window, 16, [19]),
    ],
)
def test_a_run_that_ends_early_goes_on_bit_for_bit(
    tmp_path, data, uninterrupted, end, step, mined_again
):
    with pytest.MonkeyPatch.context() as patch:
        end(patch)
        with pytest.raises((CrashError, TrainingInterrupted)):
            train(mined(data), tmp_path)
    assert checkpoint_of(tmp_path).state.step == step
    calls = []
    mine = Tables.mine
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Tables, "mine", lambda self, step, *rest: calls.append(step) or mine(self, step, *rest)
        )
        train(mined(data), tmp_path)
    assert calls == mined_again, "a table that was written is read"
    assert losses(tmp_path) == losses(uninterrupted)
    assert same_weights(tmp_path, uninterrupted)


def test_a_table_that_is_gone_or_damaged_is_refused(tmp_path, data):
    with pytest.raises(CrashError):
        train(mined(data), tmp_path, display=At(16, crash))
    (path,) = (tmp_path / "hard_negatives").iterdir()
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(
        InputError, match=r"step-00000013.safetensors: not a whole table of hard negatives"
    ):
        train(mined(data), tmp_path)
    path.unlink()
    with pytest.raises(
        InputError, match=r"step-00000013.safetensors is missing, so the run cannot go on"
    ):
        train(mined(data), tmp_path)


def test_hard_negatives_of_a_mixture_and_of_a_budget_in_minutes(tmp_path, data):
    sets = {"train": str(data), "mix": [{"train": str(data), "share": 0.5}]}
    only = stage(minutes=0.05, hard_negatives={"pool": 300, "share": 0.95})
    train(mined(data, data=sets, stage=[only], scale={"share": 0.1}), tmp_path, clock=Clock())
    table = load_file(tmp_path / "hard_negatives" / "step-00000000.safetensors")
    assert table["rows"].tolist() == list(range(640)), "how many steps there will be is not known"


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("start") / "bert")


def example(number, split, count=20):
    """The answer repeats the question's letter; it stands at another place of each list."""
    right, label = LETTERS[number % 20], number % count
    others = [word for word in LETTERS if word != right][: count - 1]
    candidates = (*others[:label], right, *others[label:])
    return Example(
        (f"say {right}",), right, thread=f"{split}{number}", candidates=candidates, label=label
    )


def write(folder, counts=(20,)):
    for split, size in (("train", 40), ("valid", 20)):
        made = [example(i, split, counts[i % len(counts)]) for i in range(size)]
        write_examples(made, folder / f"{split}-00000.parquet")
    return folder


def given_recipe(data, start, kind="cross-encoder", **changes):
    stages = [stage(batch_size=4, negatives=0, given_negatives=True, **changes)]
    validation = {"candidates": 20, "examples": 20}
    return transformer_recipe(data, start, {"kind": kind}, stage=stages, validation=validation)


def test_each_example_meets_its_own_list(tmp_path, start):
    """Of a context's 20 joined texts the first ends in its response, the others in the wrong candidates, in order."""
    negatives = GivenNegatives(
        prepare(given_recipe(write(tmp_path / "data"), start), tmp_path / "tokens").train
    )
    rows = np.array([3, 7])
    batch = (
        make_step(negatives.store, rows, 0, negatives=negatives, portion=WHOLE, packing="joined")
        .parts[0]
        .tokens
    )
    starts, lengths = batch.places()
    last = batch.ids[starts + lengths - 2]  # before the mark at the end
    letter = {code: text for text, code in letters().description["model"]["vocab"].items()}
    found = [letter[int(code)] for code in last]
    for number, texts in zip(rows.tolist(), (found[:20], found[20:]), strict=True):
        whole = example(number, "train")
        assert texts == [
            whole.response,
            *(text for text in whole.candidates if text != whole.response),
        ]


@pytest.mark.parametrize("kind", ["cross-encoder", "bi-encoder"])
def test_lists_of_candidates_are_trained_on(tmp_path, start, kind):
    made = given_recipe(write(tmp_path / "data"), start, kind, steps=3)
    assert train(made, tmp_path / "run").steps == 3
    scores = load(tmp_path / "run" / "model").score([["say a"]], [["a", "b", "c"]])
    assert np.isfinite(scores).all()


def test_data_without_lists_or_with_unequal_ones_is_refused(tmp_path, start, data):
    with pytest.raises(InputError, match="no candidates"):
        train(given_recipe(data, start), tmp_path / "one")
    with pytest.raises(InputError, match="one length"):
        train(given_recipe(write(tmp_path / "data", (20, 4)), start), tmp_path / "two")
