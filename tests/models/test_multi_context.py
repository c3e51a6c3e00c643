"""Multi-context ConveRT: the network."""

import copy

import numpy as np
import pytest
import torch

from rejoinder.errors import InputError
from rejoinder.models.convert import Convert, ConvertConfig, count_parameters
from rejoinder.models.families import build_module
from rejoinder.models.inference import pack_linears
from rejoinder.models.multi_context import MultiContextConvert
from rejoinder.models.packing import pack, rectangle

from .conftest import ROWS, lively, small_config
from .test_convert import VARIANTS

PAIRS = 12
HISTORIES = torch.tensor([0, 1, 4, 7, 11])
PRESENT = torch.zeros(PAIRS, dtype=torch.bool).index_fill(0, HISTORIES, True)


def multi(**changes):
    torch.manual_seed(1)
    return MultiContextConvert(small_config(history=10, **changes), ROWS)


@pytest.fixture(params=VARIANTS, name="variant")
def _variant(request):
    return lively(multi(**VARIANTS[request.param])).eval()


def texts(seed=0):
    """Ids of PAIRS inputs, their histories and PAIRS responses, some of the greatest length."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 61, 2 * PAIRS + len(HISTORIES))
    lengths[[0, PAIRS, -1]] = 60
    return [generator.integers(0, ROWS - 1, length).astype(np.int32) for length in lengths]


def packed(rows, **options):
    lengths = np.array([len(row) for row in rows], dtype=np.int32)
    return pack(np.concatenate(rows), lengths, ROWS - 1, **options)


def padded(rows, width=60):
    ids = torch.full((len(rows), width), ROWS - 1)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.from_numpy(row)
    lengths = torch.tensor([len(row) for row in rows])
    return rectangle(ids, torch.arange(width)[None, :] < lengths[:, None])


def encodings(network, batch, pairs=PAIRS, histories=HISTORIES):
    with torch.no_grad():
        return network.encode_pairs(batch, pairs, histories)


def test_the_three_encodings_of_contexts_and_the_responses(variant):
    found = encodings(variant, packed(texts()))
    assert list(found) == ["input", "history", "context", "response"]
    for vectors in found.values():
        assert vectors.shape == (PAIRS, 24)
        assert vectors.dtype == torch.float32
    found["history"] = found["history"][HISTORIES]
    for vectors in found.values():
        assert torch.allclose(vectors.norm(dim=1), torch.ones(len(vectors)), atol=1e-5)


def test_further_responses_may_follow_those_of_the_pairs(variant):
    rows = texts()
    found, more = (encodings(variant, packed(each)) for each in (rows, [*rows, rows[-1], rows[0]]))
    assert more["response"].shape == (PAIRS + 2, 24)
    assert torch.allclose(more["response"][-2], found["response"][-1], atol=2e-6)
    for name in found:
        assert torch.allclose(more[name][:PAIRS], found[name], atol=2e-6)


def test_without_history_h_z_is_zero_and_half_of_h_x_is_combined(variant):
    found = encodings(variant, packed(texts()))
    assert not found["history"][~PRESENT].any()
    with torch.no_grad():
        expected = variant.combined_head(found["input"][~PRESENT] / 2)
    assert torch.allclose(found["context"][~PRESENT], expected, atol=1e-6)


def test_a_batch_without_any_history_is_encoded_and_learned_from(variant):
    rows = texts()[:PAIRS] + texts()[-PAIRS:]
    none = torch.empty(0, dtype=torch.int64)
    found = encodings(variant, packed(rows), histories=none)
    alone = encodings(variant, packed(texts()))
    assert torch.allclose(found["context"][~PRESENT], alone["context"][~PRESENT], atol=1e-5)
    assert not found["history"].any()
    variant.encode_pairs(packed(rows), PAIRS, none)["context"].sum().backward()
    gradients = [p.grad for p in variant.history_head.layers.parameters()]
    assert all(gradient is None or not gradient.any() for gradient in gradients)


def test_padding_and_neighbours_change_none_of_the_encodings(variant):
    """Mistake 1, for every encoding."""
    rows = texts()
    exact = encodings(variant, packed(rows, segment_cost=0))
    for batch in (packed(rows, segment_cost=10_000), padded(rows)):
        for name, vectors in encodings(variant, batch).items():
            assert torch.allclose(vectors, exact[name], atol=2e-6), name
    for place, pair in enumerate(HISTORIES.tolist()):
        three = [rows[pair], rows[PAIRS + place], rows[PAIRS + len(HISTORIES) + pair]]
        for width in (60, max(map(len, three))):
            alone = encodings(variant, padded(three, width), 1, torch.tensor([0]))
            for name, vectors in alone.items():
                assert torch.allclose(vectors[0], exact[name][pair], atol=2e-6), name


def test_each_history_belongs_to_its_pair(variant):
    rows = texts()
    swapped = [*rows]
    swapped[PAIRS], swapped[PAIRS + 1] = rows[PAIRS + 1], rows[PAIRS]
    before, after = (encodings(variant, packed(each))["history"] for each in (rows, swapped))
    assert torch.allclose(before[[0, 1]], after[[1, 0]], atol=2e-6)
    assert torch.allclose(before[2:], after[2:], atol=2e-6)


def test_every_parameter_learns(variant):
    """Mistake 2: no parameter without a gradient from the three rankings."""
    found = variant.encode_pairs(packed(texts()), PAIRS, HISTORIES)
    for name in ("input", "history", "context"):
        (found[name] @ found["response"].T).softmax(dim=1).diagonal().log().sum().backward(retain_graph=True)
    silent = [name for name, p in variant.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert silent == []


def test_parameter_groups_hold_each_parameter_once(variant):
    grouped = [p for group in variant.parameter_groups().values() for p in group]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == set(variant.parameters())
    assert variant.parameter_groups().keys() == Convert(variant.config, ROWS).parameter_groups().keys()
    assert variant.no_decay_parameters() <= set(grouped)


@pytest.mark.parametrize(("layout", "others"), [("paper", 28_281_238), ("original", 28_543_382)])
def test_the_papers_size(layout, others):
    """CONVERT 3.5: 16.6M embedding bytes and 2 bytes for each of about 28M others, 73 MB (MB = 1,000,000 bytes)."""
    config = ConvertConfig(history=10, feed_forward_2=layout)
    with torch.device("meta"):
        network = MultiContextConvert(config, 31_476 + 1_000 + 1)
    embedding = network.embedding.weight.numel()
    assert round(embedding / 1e6, 1) == 16.6
    assert count_parameters(network) - embedding == others
    assert int((embedding + 2 * others) / 1e6) == 73


def test_with_zero_residuals_the_untrained_combination_is_the_mean():
    for size in (48, 24):  # wider than the encodings, and of their size
        network = multi(
            norm_placement="before", initialisation="unit", zero_residual=True, feed_forward_2_size=size
        ).eval()
        found = encodings(network, packed(texts()))
        mean = torch.nn.functional.normalize(found["input"] + found["history"], dim=1)
        assert torch.allclose(found["context"], mean, atol=1e-5)


def test_the_single_context_part_is_that_of_the_single_context_model():
    """The same seed gives the same trunk and the same weights of both sides."""
    torch.manual_seed(1)
    single = Convert(small_config(), ROWS).state_dict()
    both = multi().state_dict()
    assert all(torch.equal(both[name], value) for name, value in single.items())


def test_the_configuration_decides_which_model_is_built():
    assert type(build_module(small_config(), ROWS)) is Convert
    assert type(build_module(small_config(history=3), ROWS)) is MultiContextConvert
    assert small_config().history_text is None
    assert small_config(history=3, numbered_history=True).history_text.join(["b", "a", "x"]) == "0: a 1: b"


@pytest.mark.parametrize(
    ("change", "message"),
    [({"history": -1}, "history = -1"), ({"numbered_history": True}, "numbered_history = True is not allowed")],
)
def test_impossible_histories_are_refused_by_name(change, message):
    with pytest.raises(InputError, match=message):
        small_config(**change)


@pytest.mark.parametrize(("precision", "closeness"), [("fp32", 1 - 1e-5), ("bf16", 0.995), ("int8", 0.995)])
@pytest.mark.parametrize("layout", ["paper", "original"])
def test_packed_layers_combine_to_the_same_vectors(precision, closeness, layout):
    network = lively(multi(feed_forward_2=layout)).eval()
    expected = encodings(network, packed(texts()))
    found = encodings(pack_linears(copy.deepcopy(network), precision), packed(texts()))
    for name, vectors in found.items():
        chosen = PRESENT if name == "history" else torch.ones(PAIRS, dtype=torch.bool)
        assert (vectors * expected[name]).sum(dim=1)[chosen].min() > closeness, name
