"""ConveRT and the n-gram dual encoder: starts, sizes, and the folder of an n-gram model."""

import numpy as np
import pytest
import torch

import rejoinder
from rejoinder.encoders.export.folder import export_quantized, sizes
from rejoinder.encoders.export.onnx import export_onnx
from rejoinder.encoders.persistence import save
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.families import build_module
from rejoinder.errors import InputError
from rejoinder.networks.convert import Convert
from rejoinder.networks.layers import Dropout
from rejoinder.networks.ngram import NGramConfig, NGramDual
from rejoinder.networks.packing import pack
from rejoinder.networks.meta_device import on_meta_device
from rejoinder.text.ngrams import build_ngrams

from .conftest import ROWS, lively, random_batch, small_config

SIZES = {
    "embedding_size": 32,
    "positions": 20,
    "head_size": 8,
    "hidden_size": 48,
    "output_size": 24,
}
TOKENIZER = build_ngrams(
    ["how are you", "i am fine", "how old are you", "bye"], minimum_count=1, bigrams=20, buckets=9
)
TEXTS = ["how are you?", "fine, thanks", "", "the " * 40, "x", "bye!", "how are you?", "日本語 😀"]


@pytest.mark.parametrize("hidden", [64, 80], ids=["widened by nothing", "widened"])
def test_an_aligned_start_is_the_mean_of_the_embeddings_on_both_sides(hidden):
    torch.manual_seed(0)
    config = small_config(
        norm_placement="before",
        initialisation="unit",
        zero_residual=True,
        aligned_start=True,
        token_norm=False,
        feed_forward_2_size=hidden,
        output_size=32,
    )
    network = Convert(config, ROWS).eval()
    with torch.no_grad():
        network.reduction.query_key.weight.zero_()
        for table in network.token_embedding.positions:
            table.weight.zero_()
        x, y = network(
            pack(np.array([3, 4, 8, 3, 4, 8], np.int32), np.array([3, 3], np.int32), ROWS - 1), 1
        )
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
    [
        (0, "paper", 20.5e6, 21.5e6),
        (10, "paper", 28_281_238, 28_281_238),
        (10, "original", 28_543_382, 28_543_382),
    ],
)
def test_the_papers_sizes_of_convert(history, layout, least, most):
    """CONVERT 3.5: 16.6M embedding parameters and about 21M others, 59 MB quantised; with histories 28M and 73 MB."""
    with on_meta_device():
        network = build_module({"history": history, "feed_forward_2": layout}, 31_476 + 1_000 + 1)
    embedding = network.embedding.weight.numel()
    others = sum(each.numel() for each in network.parameters()) - embedding
    assert round(embedding / 1e6, 1) == 16.6
    assert least <= others <= most
    assert int((embedding + 2 * others) / 1e6) in ((73,) if history else (57, 58, 59))


def test_with_zero_residuals_the_untrained_combination_is_the_mean():
    for size in (48, 24):  # wider than the encodings, and of their size
        config = small_config(
            history=3,
            norm_placement="before",
            initialisation="unit",
            zero_residual=True,
            feed_forward_2_size=size,
        )
        network = Convert(config, ROWS).eval()
        with torch.no_grad():
            x, z = (network.encode(random_batch(24), side) for side in ("context", "history"))
            found = network.combine(x, z)
        assert torch.allclose(found, torch.nn.functional.normalize(x + z, dim=1), atol=1e-5)


@pytest.mark.parametrize(
    "sizes", [{}, {"hidden_size": 32}, {"hidden_layers": 0}, {"activation": "tanh"}]
)
def test_with_skip_connections_both_sides_start_with_the_direction_of_r(sizes):
    torch.manual_seed(0)
    config = NGramConfig(**(SIZES | {"output_size": 32, "skip_connections": True} | sizes))
    network = NGramDual(config, ROWS).eval()
    with torch.no_grad():
        r = torch.nn.functional.normalize(network.encode(random_batch(8), "reduction"), dim=-1)
        for side in ("context", "response"):
            torch.testing.assert_close(network.encode(random_batch(8), side), r)


def test_sparse_gradients_are_those_of_a_dense_table():
    torch.manual_seed(0)
    network = NGramDual(NGramConfig(**SIZES), ROWS)
    assert network.embedding.sparse
    gradients = []
    for sparse in (True, False):
        network.embedding.sparse = sparse
        network.zero_grad()
        network.encode(random_batch(8, longest=9), "context")[:, 0].sum().backward()
        gradient = network.embedding.weight.grad
        gradients.append(gradient.to_dense() if sparse else gradient)
    torch.testing.assert_close(gradients[0], gradients[1])


def test_the_papers_sizes():
    """ACL19: 104M in the embeddings, 7M others.

    See docs/choices.md for where ours differ, and why.
    """
    with on_meta_device():
        network = build_module(NGramConfig(), 105_000 + 200_000 + 50_000 + 1)
    embedding = network.embedding.weight.numel()
    others = sum(each.numel() for each in network.parameters()) - embedding
    assert embedding == 355_001 * 320
    assert others == (
        2 * 128 * 320  # positions
        + 2 * 2 * 64 * 320  # queries and keys
        # hidden layers of both sides
        + 2 * (320 * 1024 + 2 * 1024**2 + 1024 * 512 + 3 * 1024 + 512)
    )
    assert (round(embedding / 1e6, 1), round(others / 1e6, 1)) == (113.6, 6.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    network = lively(NGramDual(NGramConfig(**SIZES), TOKENIZER.rows))
    path = tmp_path_factory.mktemp("model") / "model"
    save(path, network, TOKENIZER, max_length=30, card="# A model\n")
    return path


def test_a_folder_opens_as_an_encoder(folder):
    encoder = rejoinder.load(folder, precision="fp32")
    assert isinstance(encoder, DualEncoder)
    assert not encoder.reads_history
    vectors = encoder.encode_responses(TEXTS)
    alone = np.concatenate([encoder.encode_responses([text]) for text in TEXTS])
    assert np.abs(vectors - alone).max() < 1e-5
    assert np.abs(vectors[0] - vectors[6]).max() < 1e-6
    assert encoder.transfer(TEXTS).shape == (8, 32)
    scores = encoder.score([["never read", "how are you?"]], [["fine", "bye!"]])
    expected = (
        encoder.encode_contexts([["how are you?"]]) @ encoder.encode_responses(["fine", "bye!"]).T
    )
    assert np.abs(scores - expected).max() < 1e-5


def test_few_bits_change_vectors_little(folder, tmp_path):
    export_quantized(folder, tmp_path / "small")
    exact = rejoinder.load(folder, precision="fp32").encode_responses(TEXTS)
    given = (tmp_path / "small", "fp32", 0.999), (folder, "bf16", 0.999), (folder, "int8", 0.995)
    for place, precision, least in given:
        encoder = rejoinder.load(place, precision=precision)
        alone = np.concatenate([encoder.encode_responses([text]) for text in TEXTS])
        for vectors in (encoder.encode_responses(TEXTS), alone):
            assert (exact * vectors).sum(axis=1).min() > least
    counted = sizes(folder)
    assert counted.embedding_parameters == (TOKENIZER.rows + 2 * 20) * 32
    assert sizes(tmp_path / "small") == counted


def test_onnx_is_refused_with_what_can_be_had_instead(folder, tmp_path):
    pytest.importorskip("onnxscript")
    with pytest.raises(
        InputError,
        match=r"only convert, multi-context-bi-encoder and joins of these have an ONNX form; .*--to quantized",
    ):
        export_onnx(folder, tmp_path / "onnx")
