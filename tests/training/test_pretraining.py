"""Pretraining of transformers: masked tokens, next utterances, from words to a bi-encoder."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from rejoinder.encoders.export.checkpoints import load_tokenizer, save_checkpoint
from rejoinder.encoders.export.folder import export_transformer
from rejoinder.encoders.persistence import load
from rejoinder.encoders.families import build_module
from rejoinder.errors import InputError
from rejoinder.networks.packing import pack
from rejoinder.networks.transformer import TransformerShape
from rejoinder.networks.masked_lm import MaskedBatch
from rejoinder.training.data.batches import Portion
from rejoinder.training.loop import TrainingInterrupted, train
from rejoinder.training.masked_lm import LengthBucketedOrder, Masking, pretraining_step
from rejoinder.training.preparation.inputs import prepare
from tests.encoders.tiny_transformer import SHAPE, tokenizer
from tests.training.test_loop import interrupt_at, same_weights
from tests.training.tiny import recipe, stage
from tests.training.transformers import transformer_recipe


def weights(run):
    return load_file(run / "model" / "model.safetensors")


def pretraining(data, **sections):
    schedule = {"kind": "inverse_sqrt", "warm_up_steps": 5}
    plain = {
        "vocabulary": {"kind": "bpe", "merges": 60},
        "model": {"kind": "masked-lm", **SHAPE},
        "validation": {"examples": 0},
        "loss": {"smoothing": 0.0},
        "scale": {"last": 1.0, "steps": 0},
        "text": {"max_length": 20},
        "stage": [stage(batch_tokens=600, batch_size=64, steps=12, schedule=schedule)],
    }
    return recipe(data, **plain | sections)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(20, 120), st.integers(1, 9)
)
def test_every_epoch_has_each_example_once_among_its_like(lengths, tokens, most):
    order = LengthBucketedOrder(np.array(lengths), tokens, most, (0,))
    for epoch in range(2):
        batches = [
            order.rows(epoch * order.batches_per_epoch + i) for i in range(order.batches_per_epoch)
        ]
        assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
        spans = []
        for rows in batches:
            found = np.array(lengths)[rows]
            assert len(rows) == 1 or (found.sum() <= tokens and len(rows) <= most)
            spans.append((found.min(), found.max()))
        spans.sort()
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_masks_are_those_of_bert():
    masking = Masking.from_tokenizer(tokenizer())
    generator = np.random.default_rng(0)
    ids = generator.choice(masking.ordinary, 20_000)
    ids[::10] = tokenizer().start_id
    shown, targets = masking(ids, generator)
    chosen = targets >= 0
    assert chosen.sum() == round(0.15 * 18_000)
    assert (targets[chosen] == ids[chosen]).all()
    assert not chosen[::10].any(), "marks are not guessed"
    assert (shown[~chosen] == ids[~chosen]).all()
    assert (shown[chosen] == tokenizer().mask_id).mean() == pytest.approx(0.8, abs=0.03)
    other = chosen & (shown != ids) & (shown != tokenizer().mask_id)
    assert other.sum() / chosen.sum() == pytest.approx(0.1, abs=0.03)
    assert not np.isin(shown[other], masking.special).any()


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_parts_of_several_processes_are_the_batch_of_one(tmp_path, data, step, count):
    """Whatever their number: a process beyond the last pair has one that counts for nothing."""
    prepared = prepare(pretraining(data), tmp_path)
    masking = Masking.from_tokenizer(prepared.tokenizer)
    for rows in (np.arange(64), np.arange(5)):
        found = {}
        for processes in (1, count):
            portions = [Portion(rank, processes, micro_batch=9) for rank in range(processes)]
            steps = [
                pretraining_step(prepared.train, rows, step, masking, (0,), portion)
                for portion in portions
            ]
            parts = [
                (each.weight, part.tokens) for each in steps for part in each.parts if each.weight
            ]
            assert all(isinstance(batch, MaskedBatch) for _, batch in parts)
            guesses = [
                weight
                for weight, batch in parts
                for _ in (batch.targets if step == 0 else batch.follows)
            ]
            assert sum(guesses) == pytest.approx(1.0)
            told = [batch.targets if step == 0 else batch.follows for _, batch in parts]
            found[processes] = torch.cat(told).tolist()
        assert found[count] == found[1] if step else sorted(found[count]) == sorted(found[1])


def test_the_loss_of_masked_tokens_is_that_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    shape = {name: value for name, value in SHAPE.items() if name != "context_length"}
    torch.manual_seed(0)
    ours = build_module({"kind": "masked-lm", **SHAPE}, tokenizer().rows).eval()
    torch.nn.init.normal_(ours.token_bias)
    save_checkpoint(tmp_path / "trunk", ours.transformer, TransformerShape(**shape), tokenizer())
    theirs = transformers.BertForMaskedLM.from_pretrained(str(tmp_path / "trunk")).eval()
    head = theirs.cls.predictions
    with torch.no_grad():
        head.transform.dense.load_state_dict(ours.transform.state_dict())
        head.transform.LayerNorm.load_state_dict(ours.transform_norm.state_dict())
        head.bias.copy_(ours.token_bias)
        head.decoder.bias.copy_(ours.token_bias)
    generator = np.random.default_rng(0)
    masking = Masking.from_tokenizer(tokenizer())
    rows = [generator.choice(masking.ordinary, n).astype(np.int32) for n in (9, 17, 30)]
    pairs = [masking(row, generator) for row in rows]
    lengths = np.array([len(row) for row in rows], np.int32)
    shown, targets = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    packed = pack(targets, lengths, -1).ids
    places = torch.nonzero(packed >= 0)[:, 0]
    batch = MaskedBatch(pack(shown, lengths, 0), places, packed[places])
    padded = {
        "input_ids": torch.zeros(3, 30, dtype=torch.int64),
        "labels": torch.full((3, 30), -100),
    }
    for i, (ids, labels) in enumerate(pairs):
        padded["input_ids"][i, : len(ids)] = torch.from_numpy(ids)
        padded["labels"][i, : len(ids)] = torch.from_numpy(np.where(labels < 0, -100, labels))
    mask = torch.arange(30) < torch.from_numpy(lengths)[:, None]
    with torch.inference_mode():
        found = ours.encode_pairs(batch, 3, torch.empty(0, dtype=torch.int64))["losses"]
        wanted = theirs(**padded, attention_mask=mask.long()).loss
    torch.testing.assert_close(found.mean(), wanted, atol=1e-4, rtol=1e-4)


def test_from_words_to_a_bi_encoder(tmp_path, data):
    wanted = pretraining(data)
    train(wanted, tmp_path / "whole")
    with pytest.raises(TrainingInterrupted):
        train(wanted, tmp_path / "cut", display=interrupt_at(7))
    train(wanted, tmp_path / "cut")
    assert same_weights(tmp_path / "whole", tmp_path / "cut")
    with pytest.raises(InputError, match="ranks nothing yet"):
        load(tmp_path / "whole" / "model")
    export_transformer(tmp_path / "whole" / "model", tmp_path / "bert")
    assert load_tokenizer(tmp_path / "bert").turn_id != load_tokenizer(tmp_path / "bert").end_id
    stages = [stage(steps=1, learning_rate=1e-9)]
    start = transformer_recipe(data, tmp_path / "bert", {"kind": "bi-encoder"}, stage=stages)
    train(start, tmp_path / "bi")
    tuned, ours = weights(tmp_path / "bi"), weights(tmp_path / "whole")
    for name in ("embeddings.tokens.weight", "blocks.1.contract.weight"):
        torch.testing.assert_close(
            tuned[f"response.{name}"], ours[f"transformer.{name}"], atol=1e-6, rtol=0
        )
    with pytest.raises(InputError, match="not one transformer"):
        export_transformer(tmp_path / "bi" / "model", tmp_path / "other")


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"validation": {"examples": 80, "candidates": 20}}, "validation.examples"),
        ({"loss": {}}, "loss.smoothing"),
        ({"stage": [stage()]}, "batch_tokens"),
        ({"stage": [stage(batch_tokens=600, negatives=2)]}, "negatives"),
    ],
)
def test_what_pretraining_has_no_use_for(tmp_path, data, sections, says):
    with pytest.raises(InputError, match=says):
        train(pretraining(data, **sections), tmp_path)
