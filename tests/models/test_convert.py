import numpy as np
import pytest
import torch

from rejoinder.models.convert import Convert, MultiContextConvert
from rejoinder.models.families import build_module
from rejoinder.models.layers import Dropout
from rejoinder.models.packing import pack
from rejoinder.models.quantization import skeleton

from .conftest import ROWS, random_texts, small_config


def texts_batch(count=24, **options):
    ids, lengths = random_texts(count)
    return pack(ids, lengths, ROWS - 1, **options)


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


@pytest.mark.parametrize(
    ("history", "layout", "least", "most"),
    [(0, "paper", 20.5e6, 21.5e6), (10, "paper", 28_281_238, 28_281_238), (10, "original", 28_543_382, 28_543_382)],
)
def test_the_papers_sizes(history, layout, least, most):
    """CONVERT 3.5: 16.6M embedding parameters and about 21M others, 59 MB quantised; with histories 28M and 73 MB."""
    with skeleton():
        network = build_module({"history": history, "feed_forward_2": layout}, 31_476 + 1_000 + 1)
    embedding = network.embedding.weight.numel()
    others = sum(each.numel() for each in network.parameters()) - embedding
    assert round(embedding / 1e6, 1) == 16.6
    assert least <= others <= most
    assert int((embedding + 2 * others) / 1e6) in ((73,) if history else (57, 58, 59))


def test_with_zero_residuals_the_untrained_combination_is_the_mean():
    for size in (48, 24):  # wider than the encodings, and of their size
        config = small_config(
            history=3, norm_placement="before", initialisation="unit", zero_residual=True, feed_forward_2_size=size
        )
        network = MultiContextConvert(config, ROWS).eval()
        with torch.no_grad():
            x, z = network.encode(texts_batch(), "context"), network.encode(texts_batch(), "history")
            found = network.combine(x, z)
        assert torch.allclose(found, torch.nn.functional.normalize(x + z, dim=1), atol=1e-5)
