"""Bi-, poly- and cross-encoders: padding, short contexts, gradients, model folders."""

import itertools
import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from rejoinder.errors import InputError
from rejoinder.models.attended import attended_scores, own_scores
from rejoinder.models.families import build_module, parse_config
from rejoinder.models.packing import pack, rectangle
from rejoinder.models.reductions import segment_means
from rejoinder.ranker import DualEncoder, Ranker
from tests.models.tiny_transformer import KINDS, config, network, opened, tokenizer

OWN = sorted((Path(__file__).parents[2] / "recipes" / "poly").glob("*-own.toml"))
LENGTHS = (1, 2, 3, 7, 7, 8, 12, 30)


def texts(seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(5, 200, length).astype(np.int32) for length in LENGTHS]


def packed(rows, segment_cost=16):
    return pack(np.concatenate(rows), np.array([len(row) for row in rows], np.int32), 0, segment_cost)


@pytest.mark.parametrize("side", ["context", "response"])
@pytest.mark.parametrize("name", KINDS)
def test_a_text_has_the_same_vector_alone_beside_others_and_padded(name, side):
    module, rows = network(name), texts()
    with torch.inference_mode():
        alone = torch.cat([module.encode(packed([row]), side) for row in rows])
        together = module.encode(packed(rows[::-1]), side).flip(0)
        one_segment = module.encode(packed(rows, segment_cost=10_000), side)
        ids = torch.full((len(rows), 40), 3)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.from_numpy(row)
        padded = module.encode(rectangle(ids, torch.arange(40) < torch.tensor(LENGTHS)[:, None]), side)
    for found in (together, one_segment, padded):
        torch.testing.assert_close(found, alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("name", "rows"), [("poly first", 9), ("poly last", 9), ("poly last and first", 10)])
def test_a_context_shorter_than_m_has_fewer_vectors(name, rows):
    module = network(name)
    with torch.inference_mode():
        vectors = module.encode(packed(texts()), "context")
    assert vectors.shape == (len(LENGTHS), rows, 16)
    there = (vectors != 0).any(dim=2).sum(dim=1).tolist()
    assert there == [min(length, rows) for length in LENGTHS]


def test_what_the_first_and_the_last_vectors_are():
    first, last, both = (network(name) for name in ("poly first", "poly last", "poly last and first"))
    batch = packed([texts()[-1]])
    with torch.inference_mode():
        x = first.context(batch)
        torch.testing.assert_close(first.encode(batch, "context")[0], x[:9])
        torch.testing.assert_close(last.encode(batch, "context")[0], x[-9:])
        torch.testing.assert_close(both.encode(batch, "context")[0], torch.cat([x[-9:], x[:1]]))


@pytest.mark.parametrize("own", [False, True])
def test_scores_are_those_of_the_attended_vector(own):
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


def test_scores_in_parts_are_the_same(monkeypatch):
    contexts, y = torch.randn(7, 3, 8), torch.randn(5, 8)
    whole = attended_scores(contexts, y)
    monkeypatch.setattr("rejoinder.models.attended.AT_ONCE", 31)
    with torch.no_grad():
        torch.testing.assert_close(attended_scores(contexts, y), whole)
        torch.testing.assert_close(own_scores(contexts, y.expand(7, 5, 8)), whole)


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
                torch.testing.assert_close(means[kind], x[row[kinds == kind].astype(np.int64)].mean(dim=0))


def test_a_text_without_a_second_segment_has_a_mean_of_zero():
    _, behind = segment_means(torch.ones(sum(LENGTHS), 4), packed(texts(), segment_cost=0))
    assert not behind.any()


def test_codes_near_zero_make_a_poly_encoder_a_bi_encoder_of_the_mean():
    module = network("poly learnt")
    with torch.no_grad():
        module.codes.weight.mul_(1e-6)
    batch = packed(texts())
    with torch.inference_mode():
        vectors = module.encode(batch, "context")
        means = module.finish(module.reduce(module.context(batch), batch))
    torch.testing.assert_close(vectors, means[:, None].expand_as(vectors), atol=1e-4, rtol=1e-4)


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


def test_with_the_own_recipes_scale_no_code_sees_one_token_alone():
    """Layer norm gives vectors of deviation 1, with which 768-d codes would look at one or two of 60 tokens."""
    (scale,) = {tomllib.loads(path.read_text("utf-8"))["model"]["output_scale"] for path in OWN}
    shape = {"hidden_size": 768, "blocks": 1, "heads": 1, "feed_forward_size": 8, "positions": 64, "context_length": 60}
    torch.manual_seed(0)
    module = build_module(parse_config({"kind": "poly-encoder", **shape, "output_scale": scale}), 300).eval()
    seen = []
    module.codes.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.inference_mode():
        module.encode(packed([np.arange(100, 160, dtype=np.int32)]), "context")
        weights = (module.codes.weight @ seen[0].T).softmax(dim=1)
    entropy = -(weights * weights.log()).sum(dim=1).mean()
    assert 3.5 < entropy < math.log(60), "4.09 nats would be all tokens alike"


def test_the_range_of_the_codes():
    assert 0.5 < float(build_module(config("poly learnt"), 300).codes.weight.detach().max()) <= 1
    assert 0.005 < float(build_module(config("poly learnt", code_range=0.01), 300).codes.weight.detach().max()) <= 0.01


def test_the_match_of_the_means_adds_its_cosine():
    with_match, without = network("cross-encoder", mean_match=3.0), network("cross-encoder")
    without.load_state_dict({name: v for name, v in with_match.state_dict().items() if name != "match"})
    batch = pack(np.concatenate(texts()), np.array(LENGTHS, np.int32), 0,
                 types=np.arange(sum(LENGTHS), dtype=np.int32) % 2)  # fmt: skip
    with torch.inference_mode():
        added = with_match.score(batch) - without.score(batch)
        before, behind = segment_means(without.transformer(batch), batch)
    cosines = torch.nn.functional.cosine_similarity(before, behind)
    torch.testing.assert_close(added, with_match.match * cosines, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["bi mean", "poly learnt", "poly last", "cross-encoder", "cross match"])
def test_every_parameter_gets_a_gradient(name):
    module = network(name)
    batch = pack(np.concatenate(texts()), np.array(LENGTHS, np.int32), 0,
                 types=np.arange(sum(LENGTHS), dtype=np.int32) % 2)  # fmt: skip
    if name.startswith("cross"):
        module.score(batch).square().sum().backward()
    else:
        own_scores(module.encode(batch, "context"), module.encode(batch, "response")[:, None]).square().sum().backward()
    unreached = [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
    one_segment = [] if name.startswith("cross") else ["context.embeddings.segments.weight"]
    assert not [n for n in unreached if n not in one_segment]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("name", ["bi first", "poly learnt", "cross-encoder", "cross match"])
def test_an_opened_folder_gives_the_networks_scores(tmp_path, name, precision):
    model, module = opened(tmp_path / "model", name, precision), network(name)
    contexts = [["hello there", "how are you"], ["cats"], ["what about the cats " * 20]]
    candidates = [["fine thanks", "they sleep"], ["they sleep", ""], ["fine thanks", "all day long in the sun " * 9]]
    found = model.score(contexts, candidates)
    with torch.inference_mode():
        wanted = torch.stack([_score(model, module, *pair) for pair in zip(contexts, candidates, strict=True)])
    tolerance = {"fp32": 1e-4, "bf16": 0.05, "int8": 0.1}[precision]
    assert np.abs(found - wanted.numpy()).max() < tolerance * max(1, float(wanted.abs().max()))
    assert isinstance(model, Ranker)
    assert isinstance(model, DualEncoder) == (not name.startswith("cross"))


@pytest.mark.parametrize("name", ["poly first", "poly learnt"])
def test_a_poly_encoder_says_which_vectors_are_there(tmp_path, name):
    model = opened(tmp_path / "model", name)
    assert not model.unit_length
    encoded = model.encode_contexts([["hello"], ["how are you today what about the cats they sleep all day long"]])
    if name == "poly learnt":
        assert encoded.present is None
        assert encoded.vectors.shape == (2, 5, 16)
    else:
        assert encoded.present.all(axis=1).tolist() == [False, True]
        tokens = len(model.dialogue.contexts([["hello"]])[0])
        assert len(encoded[0]) == tokens < len(encoded[1]) == 9


def _score(model, module, context, candidates):
    x, y = (part for part in (model.dialogue.contexts([context]), model.dialogue.responses(candidates)))
    if hasattr(module, "encode"):
        return own_scores(module.encode(pack(*x, 0), "context"), module.encode(pack(*y, 0), "response")[None])[0]
    rows = [np.concatenate([x[0], row[1:]]) for row in np.split(y[0], np.cumsum(y[1])[:-1])]
    types = [[0] * len(x[0]) + [1] * (len(row) - len(x[0])) for row in rows]
    lengths = np.array([len(row) for row in rows], np.int32)
    return module.score(pack(np.concatenate(rows), lengths, 0, types=np.concatenate(types).astype(np.int32)))


def test_nothing_to_score(tmp_path):
    for name in ("poly learnt", "cross-encoder"):
        model = opened(tmp_path / name, name)
        assert model.score([], []).shape == (0, 0)
        assert model.score([["hello"]], [[]]).shape == (1, 0)
    assert opened(tmp_path / "bi", "bi first").encode_responses([]).shape == (0, 16)


@pytest.mark.parametrize(
    "change",
    [{"heads": 3}, {"context_length": 65}, {"dropout": 1.0}, {"output_scale": 0.0}, {"m": 0}, {"code_range": 0},
     {"colour": 1}],
)
def test_impossible_structures_are_refused(change):
    with pytest.raises(InputError, match=next(iter(change))):
        config("poly learnt", **change)


def test_only_the_first_blocks_can_be_computed():
    module = network("bi first")
    before = module.encode(packed(texts()), "context")
    module.set_active_blocks(1)
    assert not torch.allclose(module.encode(packed(texts()), "context"), before)
    with pytest.raises(InputError, match="0 to 2"):
        module.set_active_blocks(3)


def test_both_sides_start_from_the_same_weights():
    module = build_module(config("bi first"), tokenizer().rows)
    sides = zip(module.context.parameters(), module.response.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in sides)
