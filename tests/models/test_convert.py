import numpy as np
import pytest
import torch

from rejoinder.errors import InputError
from rejoinder.models.convert import Convert, ConvertConfig, count_parameters, set_dropout
from rejoinder.models.layers import Dropout
from rejoinder.models.packing import pack, rectangle

from .conftest import ROWS, lively, random_texts, small_config

VARIANTS = {
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


@pytest.fixture(params=VARIANTS, name="variant")
def _variant(request):
    torch.manual_seed(1)
    return lively(Convert(small_config(**VARIANTS[request.param]), ROWS)).eval()


def texts_batch(count=24, **options):
    ids, lengths = random_texts(count)
    return pack(ids, lengths, ROWS - 1, **options)


def encode_one(network, ids):
    with torch.no_grad():
        return network(pack(ids, np.array([len(ids)], dtype=np.int32), ROWS - 1), 1)[0]


def test_the_same_text_alone_padded_and_beside_others_has_the_same_vector(variant):
    """Mistake 1: padding must not change a result."""
    ids, lengths = random_texts(24)
    starts = np.cumsum(lengths) - lengths
    with torch.no_grad():
        exact = variant(pack(ids, lengths, ROWS - 1, segment_cost=0), 24)[0]
        merged = variant(pack(ids, lengths, ROWS - 1, segment_cost=10_000), 24)[0]
    for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        text = ids[start : start + length]
        alone = encode_one(variant, text)[0]
        for width in {max(length, 1), 60}:
            padded = torch.full((1, width), ROWS - 1)
            padded[0, :length] = torch.from_numpy(text)
            real = torch.arange(width)[None, :] < max(length, 1)
            with torch.no_grad():
                assert variant(rectangle(padded, real), 1)[0][0] @ alone > 1 - 1e-6
        assert exact[i] @ alone > 1 - 1e-6
        assert merged[i] @ alone > 1 - 1e-6


def test_what_stands_on_padding_does_not_matter(network):
    ids = torch.randint(0, ROWS - 1, (3, 20))
    real = torch.arange(20)[None, :] < torch.tensor([[20], [7], [1]])
    other = torch.where(real, ids, torch.randint(0, ROWS - 1, (3, 20)))
    with torch.no_grad():
        assert torch.allclose(network(rectangle(ids, real), 3)[0], network(rectangle(other, real), 3)[0], atol=1e-6)


def test_every_parameter_learns(variant):
    """Mistake 2: no parameter without a gradient."""
    x, y = variant(texts_batch(), 12)
    (x @ y.T).softmax(dim=1).diagonal().log().sum().backward()
    silent = [
        name for name, p in variant.named_parameters() if p.grad is None or not p.grad.abs().max() > 0
    ]
    assert silent == []


def test_encodings_have_unit_length_and_both_sides_differ(variant):
    batch = texts_batch()
    with torch.no_grad():
        x, y = variant(batch, 24)[0], variant(batch, 0)[1]
    assert torch.allclose(x.norm(dim=1), torch.ones(24), atol=1e-5)
    assert torch.allclose(y.norm(dim=1), torch.ones(24), atol=1e-5)
    assert x.dtype == torch.float32
    assert not torch.allclose(x, y, atol=1e-2)


def test_word_order_matters_with_blocks_or_positions(network):
    forward = encode_one(network, np.array([5, 9, 33, 70], dtype=np.int32))
    backward = encode_one(network, np.array([70, 33, 9, 5], dtype=np.int32))
    assert forward[0] @ backward[0] < 0.9999


def test_attention_reaches_no_further_than_its_span():
    torch.manual_seed(0)
    one_block = small_config(blocks=1, attention_spans=(3,), relative_bias=True)
    network = lively(Convert(one_block, ROWS)).eval()
    block = network.blocks[0]
    ids = torch.randint(0, ROWS - 1, (1, 12))
    batch = rectangle(ids, torch.ones(1, 12, dtype=torch.bool))
    x = torch.randn(12, 32, requires_grad=True)
    block.attention(x, batch)[5].sum().backward()
    touched = x.grad.abs().sum(dim=1) > 0
    assert touched.tolist() == [2 <= i <= 8 for i in range(12)]


def test_a_network_with_zero_residuals_starts_as_its_embeddings_and_reduction():
    torch.manual_seed(0)
    network = Convert(small_config(norm_placement="before", initialisation="unit", zero_residual=True), ROWS).eval()
    batch = texts_batch()
    with torch.no_grad():
        with_blocks = network.reduce(batch)
        network.set_active_blocks(0)
        assert torch.equal(network.reduce(batch), with_blocks)


@pytest.mark.parametrize("hidden", [64, 80], ids=["widened by nothing", "widened"])
def test_an_aligned_start_is_the_mean_of_the_embeddings_on_both_sides(hidden):
    torch.manual_seed(0)
    config = small_config(
        norm_placement="before", initialisation="unit", zero_residual=True, aligned_start=True, token_norm=False,
        feed_forward_2_size=hidden, output_size=32,
    )  # fmt: skip
    network = Convert(config, ROWS).eval()
    with torch.no_grad():
        network.reduction.query_key.weight.zero_()
        for table in network.token_embedding.positions:
            table.weight.zero_()
        x, y = network(pack(np.array([3, 4, 8, 3, 4, 8], np.int32), np.array([3, 3], np.int32), ROWS - 1), 1)
    mean = torch.nn.functional.normalize(network.embedding.weight[[3, 4, 8]].mean(dim=0), dim=0)
    assert torch.allclose(x[0], mean, atol=1e-5)
    assert torch.allclose(y[0], mean, atol=1e-5)


def test_an_aligned_start_needs_hidden_layers_that_start_at_zero():
    with pytest.raises(InputError, match="aligned_start"):
        small_config(aligned_start=True)


def test_without_token_norm_there_is_no_layer_norm_of_tokens():
    network = Convert(small_config(norm_placement="before", token_norm=False), ROWS)
    assert network.final_norm is None
    assert not list(network.token_embedding.norm.parameters())


def test_inactive_blocks_get_no_gradient_and_active_ones_do(network):
    network.set_active_blocks(1)
    x, y = network(texts_batch(), 12)
    (x * y).sum().backward()
    assert all(p.grad is not None for p in network.blocks[0].parameters())
    assert all(p.grad is None for block in network.blocks[1:] for p in block.parameters())
    network.set_active_blocks(3)
    assert all(p.requires_grad for p in network.parameters())
    with pytest.raises(InputError, match="0 to 3"):
        network.set_active_blocks(4)


def test_parameter_groups_hold_each_parameter_once(variant):
    grouped = [p for group in variant.parameter_groups().values() for p in group]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == set(variant.parameters())
    assert variant.no_decay_parameters() <= set(grouped)


def test_the_papers_sizes():
    """CONVERT 3.5: 16.6M embedding parameters and about 21M others, 59 MB quantised (MB = 1,000,000 bytes)."""
    network = Convert(ConvertConfig(), 31_476 + 1_000 + 1)
    embedding = network.embedding.weight.numel()
    others = count_parameters(network) - embedding
    assert round(embedding / 1e6, 1) == 16.6
    assert 20.5e6 < others < 21.5e6
    assert 57e6 < embedding + 2 * others < 60e6


def test_dropout_can_be_set_and_acts_only_in_training(network):
    set_dropout(network, 0.5)
    ids = np.array([5, 9, 33, 70], dtype=np.int32)
    assert torch.equal(encode_one(network, ids), encode_one(network, ids))
    network.train()
    assert not torch.equal(encode_one(network, ids), encode_one(network, ids))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention_spans": (3, 5)}, "one positive number for each of the 3 blocks"),
        ({"embedding_size": 0}, "embedding_size = 0"),
        ({"dropout": 1.0}, "dropout = 1.0"),
        ({"positions": ()}, "positions"),
        ({"feed_forward_2_layers": 0}, "feed_forward_2_layers"),
        ({"blocks": -1, "attention_spans": ()}, "blocks = -1"),
    ],
)
def test_impossible_structures_are_refused_by_name(change, message):
    with pytest.raises(InputError, match=message):
        small_config(**change)


def test_costs_are_counted_from_the_weights(network):
    per_block = 32 * 3 * 8 + 8 * 32 + 2 * 32 * 64
    assert network.multiplications_per_token() == 3 * per_block + 32 * 2 * 2 * 8
    assert network.multiplications_per_text() == 2 * 64 * 48 + 2 * 48 * 48 + 48 * 24
    network.set_active_blocks(1)
    assert network.multiplications_per_token() == per_block + 32 * 2 * 2 * 8


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_dropout_drops_its_share_and_keeps_the_mean(share):
    torch.manual_seed(0)
    dropout, x = Dropout(share), torch.ones(401, 501, requires_grad=True)
    y = dropout(x)
    y.sum().backward()
    kept = y != 0
    assert kept.float().mean().item() == pytest.approx(1 - share, abs=0.005)
    assert y.mean().item() == pytest.approx(1.0, abs=0.01)
    assert torch.equal(x.grad, y.detach())  # the same mask and factor on the way back
    assert kept.float().mean(dim=0).std() < 0.05  # no column is dropped more than another
    torch.manual_seed(0)
    assert torch.equal(dropout(x), y)
    assert torch.equal(dropout.eval()(x), x)
