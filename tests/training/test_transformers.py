"""Bi-, poly- and cross-encoders through the training loop."""

from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rejoinder.corpora.forms.examples import write_examples
from rejoinder.corpora.schema import Example
from rejoinder.encoders.export.checkpoints import load_checkpoint
from rejoinder.encoders.persistence import load
from rejoinder.errors import InputError
from rejoinder.networks.packing import pack
from rejoinder.networks.poly import MultiContextBiEncoder
from rejoinder.training.loop import TrainingInterrupted, train
from rejoinder.training.recipe.losses import InBatchLoss, SummedLoss, list_losses
from rejoinder.training.metrics import Validator, read_metrics
from rejoinder.training.negatives import RandomNegatives
from rejoinder.training.recipe_files import load_recipe
from tests.training.test_loop import interrupt_at, same_weights
from tests.training.tiny import recipe, stage
from tests.training.transformers import transformer_recipe, write_checkpoint

BI = {"kind": "bi-encoder", "reduction": "mean"}
POLY = {"kind": "poly-encoder", "m": 4, "reduction": "mean"}
CROSS = {"kind": "cross-encoder"}
RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("start") / "bert")


def weights(run):
    return load_file(run / "model" / "model.safetensors")


def test_a_multi_context_bi_encoder_trains_on_histories_too(tmp_path, data, start):
    sections = {
        "init": {"transformer": str(start)},
        "vocabulary": None,
        "model": {"kind": "multi-context-bi-encoder"},
    }
    train(
        recipe(data, **sections, text={"max_length": 20}, stage=[stage(steps=2)]), tmp_path / "run"
    )
    assert "loss_history" in (tmp_path / "run" / "metrics.jsonl").read_text()
    assert load(tmp_path / "run" / "model").encode_contexts([["abc", "de"], ["f"]]).shape == (2, 16)
    with pytest.raises(
        InputError, match=r"text.max_length = 65, but the transformer has 64 positions"
    ):
        train(recipe(data, **sections, text={"max_length": 65}), tmp_path / "longer")


def test_a_model_takes_some_blocks_of_a_transformer(tmp_path, data, start):
    sections = {
        "vocabulary": None,
        "model": {"kind": "multi-context-bi-encoder"},
        "text": {"max_length": 20},
    }
    still = stage(steps=1, rates={"embedding": 0.0, "blocks": 0.0})
    train(
        recipe(data, init={"transformer": str(start), "blocks": [1]}, **sections, stage=[still]),
        tmp_path / "run",
    )
    given = dict(load_checkpoint(start)[0].named_parameters())
    for name, value in weights(tmp_path / "run").items():
        if name.startswith("transformer."):
            there = name.removeprefix("transformer.").replace("blocks.0.", "blocks.1.")
            assert torch.equal(value, given[there]), name
    for wrong in ([2], [1, 0], [0, 0], ["x"], 1):
        with pytest.raises(
            InputError, match=r"init.blocks = .*; give some of .*bert's, 0 to 1, ascending"
        ):
            train(
                recipe(data, init={"transformer": str(start), "blocks": wrong}, **sections),
                tmp_path / "never",
            )
    with pytest.raises(InputError, match="blocks are given, but no transformer that has them"):
        train(recipe(data, init={"blocks": [1]}), tmp_path / "never")


def test_attention_learns_the_same_in_bfloat16(start):
    """There its products are written out; of texts of several lengths, one of them padded."""
    module, tokens = load_checkpoint(start)
    batch = pack(
        *tokens.encode_ragged(["a", "b c d e", "e f g h i", "a b c d e f g h i j k l m"]), 0, 16
    )
    assert any(segment.real is not None for segment in batch.segments)
    direction, found = torch.randn(batch.computed_tokens, 16), []
    module.eval()  # without dropout
    for half in (False, True):
        module.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            (module(batch) * direction).sum().backward()
        found.append(module.blocks[0].attention.qkv.weight.grad.clone())
    assert torch.nn.functional.cosine_similarity(*map(torch.flatten, found), dim=0) > 0.99


def frozen_recipe(data, start, examples=0):
    model = {"kind": "multi-context-bi-encoder", "dropout": 0.0, "persona_first": True}
    optimizer, rates = {"kind": "sgd"}, {"embedding": 0.0, "blocks": 0.0}
    stages = [stage(steps=4, optimizer=optimizer, learning_rate=0.5, rates=rates)]
    sections = {
        "init": {"transformer": str(start)},
        "vocabulary": None,
        "model": model,
        "text": {"max_length": 20},
    }
    return recipe(data, **sections, stage=stages, validation={"examples": examples})


def test_too_few_validation_examples_are_refused_before_the_texts_are_read(tmp_path, data, start):
    with pytest.raises(InputError, match="validation examples make no group of 100"):
        train(frozen_recipe(data, start, examples=50), tmp_path)
    assert not list((tmp_path / "tokens").glob("vectors-*"))


def test_a_trunk_that_learns_nothing_reads_each_text_once(tmp_path, data, start, monkeypatch):
    """The heads learn what they learn from tokens, but for the rounding of vectors; a run goes on without reading."""
    with monkeypatch.context() as never:
        never.setattr("rejoinder.training.parts.is_frozen", lambda *_: False)
        train(frozen_recipe(data, start), tmp_path / "tokens")
    train(frozen_recipe(data, start), tmp_path / "vectors")
    from_tokens, from_vectors = weights(tmp_path / "tokens"), weights(tmp_path / "vectors")
    given = {
        f"transformer.{name}": value for name, value in load_checkpoint(start)[0].named_parameters()
    }
    for name, value in from_vectors.items():
        torch.testing.assert_close(value, from_tokens[name], atol=2e-3, rtol=0)
        assert torch.equal(value, given[name]) if name in given else value.abs().max() > 0, name
    with pytest.raises(TrainingInterrupted):
        train(frozen_recipe(data, start), tmp_path / "cut", display=interrupt_at(2))
    monkeypatch.setattr(MultiContextBiEncoder, "reduce", None)  # nothing is read again, nor hashed
    monkeypatch.setattr("rejoinder.training.initialisation.np.unique", None)
    train(frozen_recipe(data, start), tmp_path / "cut")
    assert same_weights(tmp_path / "cut", tmp_path / "vectors")


def test_runs_with_one_cache_share_the_vectors_of_equal_trunks_alone(tmp_path, data, start):
    """A trunk differs by its blocks, or by a scale that is no parameter; heads make no other trunk."""
    cache = tmp_path / "cache"

    def run(name, blocks, cached=True, **model):
        sections = {"init": {"transformer": str(start), "blocks": blocks}, "vocabulary": None}
        sections["data"] = {"train": str(data), **({"cache": str(cache)} if cached else {})}
        kind = {"kind": "multi-context-bi-encoder", "dropout": 0.0, **model}
        still = stage(steps=2, rates={"embedding": 0.0, "blocks": 0.0})
        text, none = {"max_length": 20}, {"examples": 0}
        train(
            recipe(data, **sections, model=kind, text=text, stage=[still], validation=none),
            tmp_path / name,
        )
        return len([*cache.glob("vectors-*.f16")])

    assert run("first", [0]) == 1
    assert run("heads", [0], head_size=8) == 1
    assert run("more", [0, 1]) == 2
    assert run("scaled", [0], output_scale=0.5) == 3
    run("alone", [0, 1], cached=False)
    assert same_weights(tmp_path / "more", tmp_path / "alone")


def test_given_candidates_are_among_the_texts_that_a_frozen_trunk_reads(tmp_path, start):
    """A run without them that shares the cache read other texts."""
    lists = [(f"ask {chr(97 + n)}", [f"say {chr(97 + n)}", f"odd {chr(107 + n)}"]) for n in range(9)]
    examples = [Example((asked,), said[0], candidates=tuple(said), label=0) for asked, said in lists]
    write_examples(examples, tmp_path / "data" / "train-0.parquet")
    place = {"train": str(tmp_path / "data"), "cache": str(tmp_path / "cache")}
    for given, name in ((False, "without"), (True, "with")):
        keys = {"batch_size": 4, "given_negatives": given}
        rates = {"embedding": 0.0, "blocks": 0.0}
        sections = {
            "data": place,
            "init": {"transformer": str(start)},
            "vocabulary": None,
            "model": {"kind": "multi-context-bi-encoder", "dropout": 0.0},
            "text": {"max_length": 20},
            "validation": {"examples": 0},
        }
        train(
            recipe(tmp_path, **sections, stage=[stage(steps=2, rates=rates, **keys)]),
            tmp_path / name,
        )
    texts = sorted(len(np.load(path)) for path in (tmp_path / "cache").glob("*.hashes.npy"))
    assert texts == [18, 27]


def anchored_recipe(data, start, anchor, changes=MappingProxyType({}), **others):
    sections = {"vocabulary": None, "model": {"kind": "multi-context-bi-encoder", "dropout": 0.0}}
    sections |= {
        "text": {"max_length": 20},
        "validation": {"examples": 0},
        "log": {"every_steps": 1},
        **others,
    }
    stages = [stage(steps=4, optimizer={"kind": "sgd"}, learning_rate=0.5, **changes)]
    return recipe(
        data, seed=5, init={"transformer": str(start), "anchor": anchor}, **sections, stage=stages
    )


def losses(run, name):
    return [line[name] for line in read_metrics(run / "metrics.jsonl") if name in line]


def test_an_anchored_trunk_learns_but_stays_near(tmp_path, data, start):
    """Earlier messages are read once, at the start, where it reads as ever: the first loss is that of any other run."""
    train(anchored_recipe(data, start, 0.0), tmp_path / "free")
    for anchor in (1e-6, 50.0):
        train(anchored_recipe(data, start, anchor), tmp_path / str(anchor))
    free, loose, held = (tmp_path / name for name in ("free", "1e-06", "50.0"))
    assert losses(loose, "loss")[0] == pytest.approx(losses(free, "loss")[0], abs=1e-2)
    assert losses(loose, "loss_anchor")[0] == pytest.approx(0, abs=1e-3)
    assert 0 < losses(held, "loss_anchor")[-1] < losses(loose, "loss_anchor")[-1] / 2
    before, after = dict(load_checkpoint(start)[0].named_parameters()), weights(held)
    assert any(
        not torch.equal(after[f"transformer.{name}"], value) for name, value in before.items()
    )
    validated = anchored_recipe(data, start, 1.0, validation={"examples": 20, "candidates": 5})
    train(validated, tmp_path / "validated")  # of examples that were not read at the start
    assert losses(tmp_path / "validated", "valid_loss")


def test_an_anchored_run_goes_on_from_the_trunk_as_it_was(tmp_path, data, start):
    train(anchored_recipe(data, start, 1.0), tmp_path / "whole")
    with pytest.raises(TrainingInterrupted):
        train(anchored_recipe(data, start, 1.0), tmp_path / "cut", display=interrupt_at(2))
    (lost,) = (tmp_path / "cut" / "tokens").glob("vectors-*.f16")
    lost.unlink()
    train(anchored_recipe(data, start, 1.0), tmp_path / "cut")
    assert same_weights(tmp_path / "cut", tmp_path / "whole")
    train(anchored_recipe(data, start, 1.0, {"micro_batch": 4}), tmp_path / "parts")
    for name, value in weights(tmp_path / "whole").items():
        torch.testing.assert_close(weights(tmp_path / "parts")[name], value, atol=1e-4, rtol=0)


def test_what_cannot_be_anchored_is_refused(tmp_path, data, start):
    other = transformer_recipe(
        data, start, BI, init={"transformer": str(start), "anchor": 1.0}, stage=[stage(steps=1)]
    )
    with pytest.raises(
        InputError,
        match=r"init.anchor is for .*multi-context-bi-encoder', not 'bi-encoder'; leave it",
    ):
        train(other, tmp_path / "kind")
    still = anchored_recipe(data, start, 1.0, {"rates": {"embedding": 0.0, "blocks": 0.0}})
    with pytest.raises(
        InputError, match=r"init.anchor holds a trunk that learns, but .* freeze this one; leave"
    ):
        train(still, tmp_path / "frozen")
    with pytest.raises(InputError, match="anchor is given, but no model to start from"):
        train(recipe(data, init={"anchor": 1.0}), tmp_path / "never")


@pytest.mark.parametrize(
    ("name", "layers_too"), [("fine-tune-heads", False), ("fine-tune-layers", True)]
)
def test_its_heads_are_fine_tuned_alone_or_with_the_layers(tmp_path, data, start, name, layers_too):
    train(frozen_recipe(data, start), tmp_path / "first")
    given = [
        f"data.train={data}",
        f"init.model={tmp_path / 'first' / 'model'}",
        "validation.examples=0",
        "stage.0.steps=2",
        "stage.0.batch_size=8",
        "stage.0.learning_rate=0.1",
    ]
    train(load_recipe(RECIPES / f"{name}.toml", given), tmp_path / "tuned")
    before, after = weights(tmp_path / "first"), weights(tmp_path / "tuned")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert any(name.startswith("heads.") for name in changed)
    assert any(name.startswith("transformer.") for name in changed) == layers_too
    assert not [name for name in changed if "embedding" in name]


@pytest.mark.parametrize("model", [BI, CROSS], ids=["bi", "cross"])
def test_training_starts_from_the_checkpoint(tmp_path, data, start, model):
    stages = [stage(steps=1, negatives=5 * (model is CROSS), learning_rate=1e-9)]
    train(transformer_recipe(data, start, model, stage=stages), tmp_path)
    stored, given = weights(tmp_path), dict(load_checkpoint(start)[0].named_parameters())
    sides = ["context.", "response."] if model is BI else ["transformer."]
    for side in sides:
        for name, value in given.items():
            torch.testing.assert_close(stored[side + name], value, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("keys", "changed"),
    [
        ({"trained_blocks": 1}, {"blocks.1."}),
        ({"trained_blocks": 2}, {"blocks.0.", "blocks.1."}),
        ({"rates": {"embedding": 0.0}}, {"blocks.0.", "blocks.1."}),
        ({}, {"embeddings.", "blocks.0.", "blocks.1."}),
    ],
)
def test_which_layers_train(tmp_path, data, start, keys, changed):
    train(
        transformer_recipe(
            data, start, BI, stage=[stage(steps=2, **keys)], validation={"examples": 0}
        ),
        tmp_path,
    )
    stored, given = weights(tmp_path), dict(load_checkpoint(start)[0].named_parameters())
    last = "blocks.1.expand.weight"
    assert not torch.equal(stored[f"context.{last}"], stored[f"response.{last}"]), (
        "the two sides are trained apart"
    )
    found = {
        name for name, value in given.items() if not torch.equal(stored[f"context.{name}"], value)
    }
    assert {
        next(p for p in ("embeddings.", "blocks.0.", "blocks.1.") if n.startswith(p)) for n in found
    } == changed


def test_a_plateau_lowers_the_rate_when_the_loss_stalls(tmp_path, data, start, monkeypatch):
    losses = iter([5.0, 4.0, 4.5, 4.2, 3.0, 3.0])
    monkeypatch.setattr(
        Validator, "__call__", lambda *_: {"recall@1": 0.5, "mrr": 0.5, "loss": next(losses)}
    )
    stages = [stage(steps=25, schedule={"kind": "plateau", "factor": 0.5}, learning_rate=0.008)]
    # 320 pairs: 10 batches of 32
    validation = {"every_epochs": 0.5, "examples": 40, "candidates": 20}
    train(transformer_recipe(data, start, BI, stage=stages, validation=validation), tmp_path)
    rates = [
        line["learning_rate"]
        for line in read_metrics(tmp_path / "metrics.jsonl")
        if "learning_rate" in line
    ]
    assert rates == [0.008] * 10 + [0.004] * 5 + [0.002] * 10


@pytest.mark.parametrize(
    ("model", "keys", "says"),
    [
        (CROSS, {}, "negatives = 15"),
        (POLY, {"hard_negatives": {}}, "mined by cosine"),
    ],
)
def test_a_stage_that_does_not_fit_is_refused(tmp_path, data, start, model, keys, says):
    with pytest.raises(InputError, match=says):
        train(transformer_recipe(data, start, model, stage=[stage(**keys)]), tmp_path)


def test_random_negatives_are_of_other_examples_and_follow_from_the_seed():
    draw = RandomNegatives(5, 40, (1, 0))
    rows = np.array([0, 3, 4])
    found = draw(rows)
    assert found.shape == (3, 40)
    assert (found != rows[:, None]).all()
    assert set(found[0].tolist()) == {1, 2, 3, 4}
    assert (found == draw(rows)).all()
    assert (found != draw(rows + 0 * rows[::-1] + np.array([1, 0, 0]))).any()


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_scores_that_are_there_have_the_loss_of_the_products(smoothing):
    """The dense form against `InBatchLoss`, with equal responses and additional ones."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(4, 6, generator=generator), torch.randn(9, 6, generator=generator)
    equal = torch.tensor([[0, 1, 1, 1, 1], [3, 0, 2, 3, 4]])
    wanted = InBatchLoss(smoothing)(x, y, 0.7, equal, pairs=4)
    losses, hits = list_losses(x @ y.T * 0.7, 0, smoothing, equal)
    torch.testing.assert_close(losses.mean(), wanted.value)
    assert hits.mean() == wanted.accuracy
    one = InBatchLoss(smoothing)(x[:, None], y, 0.7, equal, pairs=4)  # a poly-encoder of one vector
    torch.testing.assert_close(one.value, wanted.value)


def test_a_cross_encoders_loss_is_the_cross_entropy_of_its_lists():
    scores = torch.tensor([[1.0, 2.0, 0.5], [3.0, 3.0, -1.0]])
    found = SummedLoss(InBatchLoss(0.0))(
        {"scores": scores}, 1.0, torch.empty(2, 0, dtype=torch.int64), 0, 2
    )
    wanted = torch.nn.functional.cross_entropy(scores, torch.zeros(2, dtype=torch.int64))
    torch.testing.assert_close(found.value, wanted)
    assert found.accuracy == 0.0, "a tie counts against the model"


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"model": {"kind": "convert"}}, "made of transformers: bi-encoder"),
        ({"model": {"kind": "bi-encoder", "hidden_size": 32}}, "hidden_size = 32"),
        ({"init": {"transformer": "nowhere/to/be/found"}}, "no folder with config.json"),
        ({"vocabulary": {"kind": "bpe"}}, "leave .vocabulary. out"),
        ({"init": {"transformer": "minilm", "model": "x"}}, "at most one of model, transformer"),
    ],
)
def test_what_contradicts_the_checkpoint_is_refused(data, start, sections, says):
    with pytest.raises(InputError, match=says):
        transformer_recipe(data, start, **({"model": BI} | sections))


def test_another_checkpoint_at_the_same_place_is_refused(tmp_path, data):
    folder = write_checkpoint(tmp_path / "bert")
    wanted = transformer_recipe(data, folder, BI)
    write_checkpoint(folder, seed=1)
    with pytest.raises(InputError, match="replaced"):
        train(wanted, tmp_path / "run")


def test_from_scratch_with_a_vocabulary_of_its_own(tmp_path, data):
    shape = {
        "hidden_size": 16,
        "blocks": 1,
        "heads": 2,
        "feed_forward_size": 16,
        "positions": 64,
        "context_length": 40,
    }
    words, short = {"kind": "bpe", "merges": 50}, [stage(steps=2)]
    wanted = recipe(
        data, vocabulary=words, model={**POLY, **shape}, text={"max_length": 20}, stage=short
    )
    train(wanted, tmp_path / "run")
    start = {"model": str(tmp_path / "run" / "model")}
    tuned = recipe(
        data, vocabulary=None, model={"dropout": 0.3}, init=start, stage=[stage(steps=3)]
    )
    assert train(tuned, tmp_path / "tuned").steps == 3
