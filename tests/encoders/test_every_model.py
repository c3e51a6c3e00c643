"""What every model promises: padding and neighbours change nothing, pairs are encoded as texts, all of it learns."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rejoinder import processor
from rejoinder.encoders.families import build_module, parse_config
from rejoinder.errors import InputError
from rejoinder.networks import attention, transformer
from rejoinder.networks.convert import Convert
from rejoinder.networks.packing import pack, rectangle
from rejoinder.networks.pair_batches import SidesBatch
from rejoinder.networks.inference import pack_linears
from rejoinder.networks.rectangles import join_parts, segment_parts
from rejoinder.networks.poly import BiEncoder, PolyConvert
from tests.encoders import tiny_transformer
from tests.encoders.conftest import ROWS, lively, small_config

CONVERT = {
    "paper": {},
    "norm before": {"norm_placement": "before", "initialisation": "unit"},
    "zero residual": {"norm_placement": "before", "initialisation": "unit", "zero_residual": True},
    "no token norm": {"norm_placement": "before", "initialisation": "unit", "token_norm": False},
    "original feed-forward 2": {"feed_forward_2": "original"},
    "no skip": {"skip_connections": False},
    "original, no skip": {"feed_forward_2": "original", "skip_connections": False},
    "eight heads": {"heads": 8},
    "no relative bias": {"relative_bias": False},
    "one-headed reduction": {"reduction_heads": 1},
    "even spans": {"attention_spans": (48, 48, 48)},
    "skip of equal size": {"feed_forward_2_size": 64},
    "no blocks": {"blocks": 0, "attention_spans": ()},
}
NGRAM = {
    "paper": {},
    "no attention": {"self_attention": False},
    "no bigrams": {"bigrams": False},
    "tanh": {"activation": "tanh", "hidden_layers": 2},
    "no hidden layer": {"hidden_layers": 0},
    "skipping": {"skip_connections": True, "token_norm": True},
    "skipping, nothing to widen": {"skip_connections": True, "hidden_size": 32, "token_norm": True},
    "skipping, no hidden layer": {"skip_connections": True, "hidden_layers": 0},
}
NGRAM_SIZES = {
    "embedding_size": 32,
    "positions": 20,
    "head_size": 8,
    "hidden_size": 48,
    "output_size": 24,
}
LENGTHS = (1, 2, 3, 0, 7, 7, 8, 12, 30, 60, 5, 9, 2)


def convert(**changes):
    return build_module(small_config(**changes), ROWS)


def ngram(**changes):
    return build_module({"kind": "ngram", **NGRAM_SIZES, **changes}, ROWS)


def poly_convert(**changes):
    values = {
        **vars(small_config()),
        "kind": "poly-convert",
        "m": 3,
        "context_length": 60,
        **changes,
    }
    return build_module(
        {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}, ROWS
    )


def multi_context_bi(**changes):
    shape = {key: value for key, value in tiny_transformer.SHAPE.items() if key != "context_length"}
    return build_module(
        parse_config({**shape, "kind": "multi-context-bi-encoder", **changes}), ROWS
    )


BUILDERS = {
    **{f"convert, {name}": partial(convert, **changes) for name, changes in CONVERT.items()},
    **{
        f"multi-context, {name}": partial(convert, history=10, **changes)
        for name, changes in CONVERT.items()
    },
    **{f"n-gram, {name}": partial(ngram, **changes) for name, changes in NGRAM.items()},
    **{name: partial(tiny_transformer.network, name) for name in tiny_transformer.KINDS},
    "poly-convert": poly_convert,
    "multi-context bi": multi_context_bi,
    "multi-context bi, relative positions": partial(
        multi_context_bi, segments=0, relative_buckets=8
    ),
}


@pytest.fixture(params=BUILDERS)
def module(request):
    torch.manual_seed(1)
    return lively(BUILDERS[request.param]()).eval()


def texts(lengths=LENGTHS, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(5, 80, length).astype(np.int32) for length in lengths]


def packed(module, rows, cost=16):
    return pack(
        np.concatenate(rows),
        np.array([len(row) for row in rows], np.int32),
        module.padding_id,
        cost,
    )


def padded(module, rows):
    """The usual padded form, with any ids where there is no token."""
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(63) < lengths[:, None]
    ids = torch.randint(5, 80, mask.shape)
    ids[mask] = torch.from_numpy(np.concatenate(rows)).long()
    ids[lengths == 0, 0] = module.padding_id
    return rectangle(ids, mask)


def sides(module):
    if isinstance(module, BiEncoder):
        return ("context", "response")
    return ("context", "response", "reduction", *(["history"] if module.history else []))


def test_a_text_has_the_same_vector_alone_beside_others_and_padded(module):
    """Mistake 1: padding must not change a result."""
    rows = texts()
    for side in sides(module):
        with torch.inference_mode():
            alone = torch.cat([module.encode(packed(module, [row]), side) for row in rows])
            others = [module.encode(packed(module, rows, cost), side) for cost in (0, 10_000, None)]
            others.append(module.encode(packed(module, rows[::-1]), side).flip(0))
            others.append(module.encode(padded(module, rows), side))
        for found in others:
            torch.testing.assert_close(found, alone, atol=1e-5, rtol=1e-4)
        assert alone.dtype == torch.float32
        cosine = (
            getattr(
                module.config, "similarity", "dot" if isinstance(module, BiEncoder) else "cosine"
            )
            == "cosine"
        )
        if (
            cosine
            and side != "reduction"
            and not (isinstance(module, PolyConvert) and side == "context")
        ):
            torch.testing.assert_close(alone.norm(dim=1), torch.ones(len(alone)), atol=1e-5, rtol=0)


@pytest.fixture
def eight_bits(module):
    return pack_linears(module, "int8")


@pytest.mark.skipif(not processor.has_onednn(), reason="a PyTorch without oneDNN")
@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lengths=st.lists(st.integers(0, 60), min_size=1, max_size=12), seed=st.integers(0, 99))
def test_in_eight_bits_a_text_has_the_same_vector_in_every_batch_without_padding(
    eight_bits, lengths, seed
):
    """A difference of 1e-7 could round to another integer and change the vector by 1e-2."""
    rows = texts(lengths, seed)
    for side in sides(eight_bits):
        with torch.inference_mode():
            together = eight_bits.encode(packed(eight_bits, rows, cost=0), side)
            alone = torch.cat([eight_bits.encode(packed(eight_bits, [row]), side) for row in rows])
        torch.testing.assert_close(together, alone, atol=1e-6, rtol=0)


def pairs_of(module, cost=16):
    """Four pairs, two of them with a history, and two further responses: the batch and its parts."""
    rows = [row for row in texts() if len(row)]
    inputs, earlier, responses = rows[:4], rows[4:6] if module.history else [], rows[6:12]
    if isinstance(module, BiEncoder):
        batch = SidesBatch(packed(module, inputs, cost), packed(module, responses, cost))
    else:
        batch = packed(module, [*inputs, *earlier, *responses], cost)
    histories = torch.tensor([[0, 2], [0, 0]] if earlier else [[], []], dtype=torch.int64)
    return batch, histories, (inputs, earlier, responses)


def test_pairs_are_encoded_as_each_text_by_itself(module):
    batch, histories, (inputs, earlier, responses) = pairs_of(module)
    with torch.inference_mode():
        found = module.encode_pairs(batch, 4, histories)
        x, y = (
            module.encode(packed(module, inputs), "context"),
            module.encode(packed(module, responses), "response"),
        )
        expected = {"context": x, "response": y}
        assert x.shape != y.shape or not torch.allclose(x, y, atol=1e-2), "the sides differ"
        if module.history:
            h = module.encode(packed(module, earlier), "history")
            z = module.pool_history(x, h, histories)
            unit = torch.nn.functional.normalize(z, dim=-1)
            expected = {"input": x, "history": unit, "context": module.combine(x, z), "response": y}
        if module.history and not module.history.apart:
            torch.testing.assert_close(z, torch.stack([h[0], 0 * h[0], h[1], 0 * h[0]]))
            there = torch.tensor([True, False, True, False])
            all_earlier = padded(module, [earlier[0], inputs[0], earlier[1], inputs[0]])
            combined = module.encode_conversations(padded(module, inputs), all_earlier, there)
            torch.testing.assert_close(combined, expected["context"], atol=1e-5, rtol=1e-4)
    assert found.keys() == expected.keys()
    for name, vectors in expected.items():
        torch.testing.assert_close(found[name], vectors, atol=1e-5, rtol=1e-4)


def test_every_parameter_learns_and_is_in_one_group(module):
    """Mistake 2: no parameter without a gradient."""
    batch, histories, _ = pairs_of(module)
    encodings = module.encode_pairs(batch, 4, histories)
    sum((vectors * torch.randn_like(vectors)).sum() for vectors in encodings.values()).backward()
    silent = [
        name
        for name, p in module.named_parameters()
        if p.grad is None or not p.grad.abs().sum() > 0
    ]
    assert silent == []
    grouped = [p for group in module.parameter_groups().values() for p in group]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == set(module.parameters())
    assert module.no_decay_parameters() <= set(grouped)


def gradients(module, cost):
    batch, histories, _ = pairs_of(module, cost)
    module.zero_grad()
    encodings = module.encode_pairs(batch, 4, histories)
    torch.manual_seed(2)
    sum((vectors * torch.randn_like(vectors)).sum() for vectors in encodings.values()).backward()
    return {name: p.grad.to_dense().clone() for name, p in module.named_parameters()}


def test_gradients_are_the_same_in_segments_and_in_one_rectangle(module):
    """What is computed of padding takes no part in learning, on a card either."""
    segments = gradients(module, 16)
    rectangle = gradients(module, None)
    for name, gradient in segments.items():
        torch.testing.assert_close(
            rectangle[name], gradient, atol=2e-5, rtol=1e-3, msg=lambda text, name=name: name + text
        )


def attended_one_by_one(q, k, v, query_ends, key_ends, most_queries, most_keys, _dropout):
    """Flash attention's arithmetic, a text at a time."""
    found = []
    places = [zip(ends.tolist(), ends.tolist()[1:], strict=False) for ends in (query_ends, key_ends)]
    for (a, b), (c, d) in zip(*places, strict=True):
        assert b - a <= most_queries
        assert d - c <= most_keys
        rows = (part.transpose(0, 1) for part in (q[a:b], k[c:d], v[c:d]))
        found.append(torch.nn.functional.scaled_dot_product_attention(*rows).transpose(0, 1))
    assert query_ends[-1] == len(q)
    assert key_ends[-1] == len(k)
    return torch.cat(found)


@pytest.mark.parametrize("name", [*tiny_transformer.KINDS, "multi-context bi"])
def test_texts_are_read_as_they_are_packed(name, monkeypatch):
    """What a card's attention in 16 bits gets of a batch."""
    torch.manual_seed(1)
    module = lively(BUILDERS[name]()).eval()
    alone = gradients(module, 16)
    monkeypatch.setattr(transformer, "reads_packed", lambda *_: True)
    monkeypatch.setattr(attention, "_flash", attended_one_by_one)
    together = gradients(module, None)
    for part, gradient in alone.items():
        torch.testing.assert_close(together[part], gradient, atol=2e-5, rtol=1e-3)
    rows = texts()
    with torch.inference_mode():
        for side in sides(module):
            found = module.encode(packed(module, rows, None), side)
            wanted = torch.cat([module.encode(packed(module, [row]), side) for row in rows])
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


def test_only_the_first_blocks_are_computed_and_trained(module):
    count = len(module.blocks)
    with pytest.raises(InputError, match=f"{count + 1} given, allowed is 0 to {count}"):
        module.set_active_blocks(count + 1)
    if count < 2:
        return
    before = module.encode(packed(module, texts()), "context")
    module.set_active_blocks(1)
    batch, histories, _ = pairs_of(module)
    module.encode_pairs(batch, 4, histories)["context"].square().sum().backward()
    assert not torch.allclose(module.encode(packed(module, texts()), "context"), before, atol=1e-4)
    assert all(p.grad is None for block in module.blocks[1:] for p in block.parameters())
    module.set_active_blocks(count)
    assert all(p.requires_grad for p in module.parameters())


def test_the_configuration_decides_which_model_is_built():
    assert type(convert()) is Convert
    assert convert(history=3).history == small_config(history=3).history_text
    with pytest.raises(
        InputError, match=r"model.kind = 'gru' is unknown; allowed are convert, ngram"
    ):
        parse_config({"kind": "gru"})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"attention_spans": [3, 5]}, "one positive number for each of the 6 blocks"),
        ({"positions": []}, "positions"),
        ({"blocks": -1, "attention_spans": []}, "blocks = -1"),
        ({"aligned_start": True}, "aligned_start"),
        ({"history": -1}, "history = -1"),
        ({"numbered_history": True}, "numbered_history = True is not allowed"),
        ({"embeding_size": 32}, "embeding_size'; did you mean 'embedding_size'"),
        ({"norm_placement": "behind"}, "norm_placement.*'behind'"),
        ({"kind": "ngram", "embedding_size": 0}, "embedding_size = 0"),
        ({"kind": "ngram", "blocks": 2}, "blocks"),
        ({"kind": "poly-encoder", "heads": 5}, "heads"),
        ({"kind": "poly-encoder", "context_length": 513}, "context_length"),
        ({"kind": "poly-encoder", "m": 0}, "m = 0"),
        ({"kind": "multi-context-bi-encoder", "history": 0}, "history = 0"),
    ],
)
def test_impossible_structures_are_refused_by_name(values, message):
    with pytest.raises(InputError, match=message):
        parse_config(values)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=40))
@settings(max_examples=60)
def test_the_one_rectangle_holds_each_text_in_order(lengths):
    counts = np.array(lengths, dtype=np.int32)
    ids = np.arange(counts.sum(), dtype=np.int32)
    batch = pack(ids, counts, padding_id=-7, segment_cost=None, types=ids + 1)
    real = batch.real_tokens
    assert real == sum(max(n, 1) for n in lengths)
    assert (batch.ids[real:] == -7).all()
    [(part, segment)] = segment_parts(batch, batch.ids)
    rows = part.view(segment.count, segment.length)
    texts = [row[mask].tolist() for row, mask in zip(rows, segment.real, strict=True)]
    starts = np.cumsum(counts) - counts
    pieces = zip(starts.tolist(), lengths, strict=True)
    assert texts == [list(range(start, start + length)) or [-7] for start, length in pieces]
    assert join_parts(batch, [part])[:real].tolist() == batch.ids[:real].tolist()
    assert batch.padding.blank.reshape(-1)[batch.padding.inside].tolist() == [
        place >= real for place in range(batch.computed_tokens)
    ]
    assert batch.places()[0].tolist() == batch.positions[:real].eq(0).nonzero()[:, 0].tolist()
    assert batch.places()[1].tolist() == [max(n, 1) for n in lengths]
    assert segment.length % 16 == 0
    ends = batch.padding.ends.tolist()
    assert ends[: len(lengths) + 1] == [0, *np.cumsum([max(n, 1) for n in lengths]).tolist()]
    assert ends[-1] == batch.computed_tokens
    assert all(0 <= size <= segment.length for size in np.diff(ends))


@given(st.lists(st.integers(0, 60), min_size=1, max_size=40), st.sampled_from([0, 5, 16, 10_000]))
@settings(max_examples=60)
def test_every_text_is_found_again_whatever_the_segments(lengths, cost):
    counts = np.array(lengths, dtype=np.int32)
    ids = np.arange(counts.sum(), dtype=np.int32)
    batch = pack(ids, counts, padding_id=-7, segment_cost=cost)
    ordered = []
    for segment in batch.segments:
        stop = segment.start + segment.count * segment.length
        rows = batch.ids[segment.start : stop].view(segment.count, segment.length)
        places = batch.positions[segment.start : stop].view(segment.count, segment.length)
        assert (places == torch.arange(segment.length)).all()
        real = torch.ones_like(rows, dtype=torch.bool) if segment.real is None else segment.real
        ordered += [row[mask].tolist() for row, mask in zip(rows, real, strict=True)]
    starts = np.cumsum(counts) - counts
    for text, row in enumerate(batch.restore.tolist()):
        expected = ids[starts[text] : starts[text] + counts[text]].tolist()
        assert ordered[row] == (expected or [-7])  # a text without tokens is one padding token
    assert batch.real_tokens == sum(max(n, 1) for n in lengths)
    assert stop == batch.computed_tokens
    assert cost or batch.computed_tokens == batch.real_tokens


def test_a_training_batch_of_chat_lengths_is_padded_by_less_than_five_per_cent():
    counts = np.clip(np.random.default_rng(0).gamma(2.0, 7.0, 2048).astype(np.int32), 1, 60)
    batch = pack(np.zeros(counts.sum(), dtype=np.int32), counts, padding_id=0)
    assert batch.computed_tokens < 1.05 * batch.real_tokens
    assert len(batch.segments) < 60
