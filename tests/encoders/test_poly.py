"""Bi-, poly- and cross-encoders: short contexts, scores, model folders."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from rejoinder.encoders.persistence import load, save
from rejoinder.encoders.protocol import DualEncoder, Ranker
from rejoinder.encoders.families import build_module
from rejoinder.networks.layers import (
    MessageGates,
    attended_scores,
    first,
    own_scores,
    segment_means,
)
from rejoinder.networks.packing import pack
from rejoinder.text.subwords import Subwords
from rejoinder.text.pretrained import MarkedPretrained
from tests.encoders.conftest import ROWS, lively
from tests.encoders.test_every_model import multi_context_bi, poly_convert
from tests.encoders.tiny_transformer import KINDS, WORDS, network, opened, tokenizer

LENGTHS = (1, 2, 3, 7, 7, 8, 12, 30)


def texts(seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(5, 200, length).astype(np.int32) for length in LENGTHS]


def packed(rows, segment_cost=16):
    return pack(
        np.concatenate(rows), np.array([len(row) for row in rows], np.int32), 0, segment_cost
    )


@pytest.mark.parametrize(
    ("name", "rows"), [("poly first", 9), ("poly last", 9), ("poly last and first", 10)]
)
def test_a_context_shorter_than_m_has_fewer_vectors(name, rows):
    module = network(name)
    with torch.inference_mode():
        vectors = module.encode(packed(texts()), "context")
    assert vectors.shape == (len(LENGTHS), rows, 16)
    there = (vectors != 0).any(dim=2).sum(dim=1).tolist()
    assert there == [min(length, rows) for length in LENGTHS]


def test_what_the_first_and_the_last_vectors_are():
    leading, last, both = (
        network(name) for name in ("poly first", "poly last", "poly last and first")
    )
    batch = packed([texts()[-1]])
    with torch.inference_mode():
        x = leading.context(batch)
        torch.testing.assert_close(leading.encode(batch, "context")[0], x[:9])
        torch.testing.assert_close(last.encode(batch, "context")[0], x[-9:])
        torch.testing.assert_close(both.encode(batch, "context")[0], torch.cat([x[-9:], x[:1]]))


@pytest.mark.parametrize("blocks", [0, 1, 2])
@pytest.mark.parametrize("segment_cost", [0, 1000])
def test_the_last_block_computes_no_token_but_the_first_where_no_other_counts(segment_cost, blocks):
    module, batch, rows = network("cross-encoder"), packed(texts(), segment_cost), []
    transformer = module.transformer
    transformer.set_active_blocks(blocks)
    transformer.blocks[1].expand.register_forward_hook(lambda _layer, x, _y: rows.append(len(x[0])))
    with torch.inference_mode():
        torch.testing.assert_close(transformer.first(batch), first(transformer(batch), batch))
        rows.clear()
        module.score(batch)
    assert rows == ([len(LENGTHS)] if blocks == 2 else [])


@pytest.mark.parametrize("at_once", [1 << 20, 31])
@pytest.mark.parametrize("own", [False, True])
@torch.no_grad()
def test_scores_are_those_of_the_attended_vector(own, at_once, monkeypatch):
    monkeypatch.setattr("rejoinder.networks.layers.AT_ONCE", at_once)
    generator = torch.Generator().manual_seed(1)
    contexts = torch.randn(4, 6, 8, generator=generator)
    counts = torch.tensor([6, 3, 1, 5])
    contexts *= (torch.arange(6) < counts[:, None])[:, :, None]
    y = torch.randn(4, 5, 8, generator=generator) if own else torch.randn(5, 8, generator=generator)
    found = attended_scores(contexts, y)
    for i, j in itertools.product(range(4), range(5)):
        real, candidate = contexts[i, : counts[i]], y[i, j] if own else y[j]
        weights = torch.einsum("md,d->m", real, candidate).softmax(0)
        built = torch.einsum("m,md->d", weights, real)
        torch.testing.assert_close(found[i, j], torch.einsum("d,d->", built, candidate))
        products = real @ candidate
        assert products.min() - 1e-5 <= found[i, j] <= products.max() + 1e-5


def test_segment_means_are_those_of_each_text_alone_and_padded():
    rows = [row for row in texts() if len(row) > 2]
    types = [np.arange(len(row), dtype=np.int32) * 3 // (2 * len(row)) for row in rows]
    x = torch.randn(200, 16, generator=torch.Generator().manual_seed(0))
    for cost in (0, 10_000):
        lengths = np.array([len(row) for row in rows], np.int32)
        batch = pack(np.concatenate(rows), lengths, 0, cost, types=np.concatenate(types))
        found = torch.stack(segment_means(x[batch.ids], batch), dim=1)
        for row, kinds, means in zip(rows, types, found, strict=True):
            for kind in (0, 1):
                torch.testing.assert_close(
                    means[kind], x[row[kinds == kind].astype(np.int64)].mean(dim=0)
                )


@pytest.mark.parametrize("name", [*KINDS, "cross-encoder", "cross match"])
def test_output_scale_scales_token_vectors_before_anything_is_made_of_them(name):
    """So it does what a smaller last layer norm does."""
    scaled, plain = network(name, output_scale=0.25), network(name, output_scale=1.0)
    batch = packed(texts())
    with torch.inference_mode():
        for transformer in plain.transformers:
            for parameter in transformer.blocks[-1].feed_forward_norm.parameters():
                parameter.mul_(0.25)
        if name.startswith("cross"):
            torch.testing.assert_close(scaled.score(batch), plain.score(batch))
            return
        for side in ("context", "response"):
            torch.testing.assert_close(scaled.encode(batch, side), plain.encode(batch, side))


def test_the_match_of_the_means_adds_its_cosine():
    with_match, without = network("cross-encoder", mean_match=3.0), network("cross-encoder")
    without.load_state_dict(
        {name: v for name, v in with_match.state_dict().items() if name != "match"}
    )
    batch = pack(
        np.concatenate(texts()),
        np.array(LENGTHS, np.int32),
        0,
        types=np.arange(sum(LENGTHS), dtype=np.int32) % 2,
    )
    with torch.inference_mode():
        added = with_match.score(batch) - without.score(batch)
        before, behind = segment_means(without.transformer(batch), batch)
    cosines = torch.nn.functional.cosine_similarity(before, behind)
    torch.testing.assert_close(added, with_match.match * cosines, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("name", ["bi first", "poly learnt", "cross-encoder", "cross match"])
def test_an_opened_folder_gives_the_networks_scores(tmp_path, name, precision):
    model, module = opened(tmp_path / "model", name, precision), network(name)
    contexts = [["hello there", "how are you"], ["cats"], ["what about the cats " * 20]]
    candidates = [
        ["fine thanks", "they sleep"],
        ["they sleep", ""],
        ["fine thanks", "all day long in the sun " * 9],
    ]
    found = model.score(contexts, candidates)
    assert model.score([], []).shape == (0, 0)
    assert model.score([["hello"]], [[]]).shape == (1, 0)
    with torch.inference_mode():
        wanted = torch.stack(
            [_score(model, module, *pair) for pair in zip(contexts, candidates, strict=True)]
        )
    tolerance = {"fp32": 1e-4, "bf16": 0.05, "int8": 0.1}[precision]
    assert np.abs(found - wanted.numpy()).max() < tolerance * max(1, float(wanted.abs().max()))
    assert isinstance(model, Ranker)
    assert isinstance(model, DualEncoder) == (not name.startswith("cross"))


def _score(model, module, context, candidates):
    x, y = (
        part for part in (model.dialogue.contexts([context]), model.dialogue.responses(candidates))
    )
    if hasattr(module, "encode"):
        return own_scores(
            module.encode(pack(*x, 0), "context"), module.encode(pack(*y, 0), "response")[None]
        )[0]
    rows = [np.concatenate([x[0], row[1:]]) for row in np.split(y[0], np.cumsum(y[1])[:-1])]
    types = [[0] * len(x[0]) + [1] * (len(row) - len(x[0])) for row in rows]
    lengths = np.array([len(row) for row in rows], np.int32)
    return module.score(
        pack(np.concatenate(rows), lengths, 0, types=np.concatenate(types).astype(np.int32))
    )


@pytest.mark.parametrize("name", ["cross-encoder", "cross match"])
def test_every_parameter_of_a_cross_encoder_gets_a_gradient_and_padding_changes_no_score(name):
    module, lengths = network(name), np.array(LENGTHS, np.int32)
    types = np.arange(sum(LENGTHS), dtype=np.int32) % 2
    one, merged = (
        module.score(pack(np.concatenate(texts()), lengths, 0, cost, types)) for cost in (0, 10_000)
    )
    torch.testing.assert_close(one, merged, atol=1e-5, rtol=1e-4)
    one.square().sum().backward()
    assert not [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
    assert set(module.parameters()) == {
        p for group in module.parameter_groups().values() for p in group
    }


def test_a_folder_reads_whole_conversations(tmp_path):
    letters = Subwords([chr(0xFE4F), *"abcdefghijklmnopqrstuvwxyz"], buckets=8)
    torch.manual_seed(0)
    module = lively(build_module(poly_convert().config, letters.rows))
    save(tmp_path / "model", module, letters, max_length=20, card="# A model\n")
    model = load(tmp_path / "model", precision="fp32")
    contexts = (["hello", "how are you"], ["how are you"])
    whole, newest = (model.score([context], [["fine", "no"]]) for context in contexts)
    assert not np.allclose(whole, newest)
    assert model.encode_contexts([["hello"]]).vectors.shape == (1, 3, 24)
    assert model.encode_contexts({1: ["hello"]}.values()).vectors.shape == (1, 3, 24)


def marked():
    return MarkedPretrained(tokenizer().description, tokenizer().special, tokenizer().rows)


def test_an_untrained_model_is_the_mean_of_its_transformers_outputs():
    module, rows = multi_context_bi().eval(), [row % ROWS for row in texts()]
    with torch.inference_mode():
        means = torch.stack([module.transformer(packed([row])).mean(dim=0) for row in rows])
        unit = F.normalize(means, dim=1)
        for side in ("context", "history", "response"):
            torch.testing.assert_close(module.encode(packed(rows), side), unit)
        torch.testing.assert_close(
            module.combine(unit[:4], unit[4:]), F.normalize(unit[:4] + unit[4:], dim=1)
        )
        torch.testing.assert_close(module.combine(unit, torch.zeros_like(unit)), unit)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_folder_opens_as_an_encoder_of_conversations(tmp_path, precision):
    module = lively(build_module(multi_context_bi().config, tokenizer().rows)).eval()
    save(tmp_path / "model", module, marked(), max_length=20, card="# A model\n")
    encoder = load(tmp_path / "model", precision=precision)
    contexts = [
        ["hello there", "how are you"],
        ["how are you"],
        ["the cats", "sleep all day", "fine thanks"],
    ]
    vectors = encoder.encode_contexts(contexts)
    closeness = {"fp32": 1 - 1e-5, "bf16": 0.99, "int8": 0.98}[precision]
    ids, lengths = marked().encode_ragged(["how are you", "hello there"], 20)
    with torch.inference_mode():
        batch = pack(ids, lengths, 0)
        x, h = module.encode(batch, "context")[:1], module.encode(batch, "history")[1:]
        both = module.combine(x, module.pool_history(x, h, torch.tensor([[0], [0]])))[0]
        alone = module.combine(x, torch.zeros(1, 16))[0]
    assert float(vectors[0] @ both.numpy()) > closeness
    assert float(vectors[1] @ alone.numpy()) > closeness
    known = encoder.with_cache()
    assert (known.encode_contexts(contexts) * vectors).sum(axis=1).min() > closeness
    messages = [message for context in contexts for message in context]
    assert (known.encode_responses(messages) * encoder.encode_responses(messages)).sum(
        axis=1
    ).min() > closeness
    assert {*known._cache._vectors} == {("message", message) for message in messages}, (
        "each message is read once"
    )
    assert encoder.transfer(["hello there"]).shape == (1, 16)
    assert encoder.score(contexts, [["fine", "cats"]] * 3).shape == (3, 2)


def test_earlier_messages_count_as_far_as_they_have_to_do_with_the_newest_one():
    """Against a loop over the messages; one of another subject counts for next to nothing."""
    torch.manual_seed(0)
    gates, x, h = (
        MessageGates(8, 3),
        F.normalize(torch.randn(2, 8), dim=1),
        F.normalize(torch.randn(5, 8), dim=1),
    )
    torch.nn.init.normal_(gates.near.opens, std=0.3)
    places = [(0, 0), (0, 2), (1, 0), (1, 1), (1, 2)]
    expected = torch.zeros(2, 8)
    for message, (context, slot) in zip(h, places, strict=True):
        gate, newest = gates.near, x[context]
        opens = math.sqrt(8) * (gate.opens @ newest)
        near = 1 / (1 + torch.exp(opens - gate.slope * (message @ newest - gate.threshold)))
        expected[context] += gates.weights[slot] * near * message
    torch.testing.assert_close(gates(x, h, torch.tensor(places).T), expected)
    same, opposite = (
        gates(x[:1], sign * x[:1], torch.tensor([[0], [0]])).norm() for sign in (1, -1)
    )
    assert same > 50 * opposite > 0


def test_marks_stand_around_every_text_and_count_as_tokens():
    plain, ours = tokenizer(), marked()
    said = [" ".join(WORDS), "", "hello"]
    ids, lengths = plain.encode_ragged(said)
    found, counts = ours.encode_ragged(said)
    assert counts.tolist() == [lengths[0] + 2, 0, lengths[2] + 2]
    start, end = [plain.start_id], [plain.end_id]
    assert (
        found.tolist()
        == start + ids[: lengths[0]].tolist() + end + start + ids[lengths[0] :].tolist() + end
    )
    cut, counts = ours.encode_ragged(said, 4)
    assert counts.tolist() == [4, 0, min(4, lengths[2] + 2)]
    assert cut[:4].tolist() == [plain.start_id, *ids[:2], plain.end_id]
    assert ours.fingerprint != plain.fingerprint
