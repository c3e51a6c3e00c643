"""Quantisation: what the levels promise, gradients that do not feel them, and the folder of a quantised model."""

import gc
import subprocess
import sys

import numpy as np
import pytest
import torch
from packaging.version import Version
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn

import rejoinder
from rejoinder.encoders.export.folder import export_quantized
from rejoinder.encoders.persistence import load_as_validated, load_module, save
from rejoinder.errors import InputError
from rejoinder.networks import inference
from rejoinder.encoders.export.folder import half_for
from rejoinder.networks.convert import Convert
from rejoinder.networks.packing import pack
from rejoinder.networks.quantization.rounding import bounds_of, round_parameters, round_to_levels, step_of, to_codes
from rejoinder.networks.quantization.training import QuantizedTraining
from rejoinder.networks.quantization.weights import QuantizedTable
from rejoinder.text.subwords import MARK, Subwords

from .conftest import ROWS, SUBWORDS, convert, random_batch, saved, small_config

TEXTS = [
    "how are you?",
    "fine, thanks",
    "",
    "two\nlines",
    "a much longer text with many more letters in it, yes!",
]
tables = st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=40).map(
    lambda values: torch.tensor(values)[:, None]
)


@pytest.fixture
def plain(tmp_path):
    """The folder of a model that was trained as usual."""
    return saved(tmp_path / "plain", 40)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_in_every_precision_it_gives_what_the_full_folder_gives(tmp_path, half, precision):
    module = convert(feed_forward_2="original")
    QuantizedTraining(module, half)
    save(tmp_path / "full", module, SUBWORDS, max_length=40, card="# A model\n")
    export_quantized(tmp_path / "full", tmp_path / "small")
    full, small = (
        rejoinder.load(tmp_path / name, precision=precision) for name in ("full", "small")
    )
    assert (full.encode_responses(TEXTS) * small.encode_responses(TEXTS)).sum(axis=1).min() > 0.9999
    assert (full.transfer(TEXTS) - small.transfer(TEXTS)).max() < 0.05


@pytest.mark.parametrize(("has_bfloat16", "kind"), [(True, torch.bfloat16), (False, torch.float32)])
def test_the_processors_fastest_precision_is_taken_and_never_float16(
    tmp_path, plain, monkeypatch, has_bfloat16, kind
):
    assert export_quantized(plain, tmp_path / "small")["half"] == "float16"
    monkeypatch.setattr(inference.processor, "has_fast_bfloat16", lambda: has_bfloat16)
    small, full = rejoinder.load(tmp_path / "small"), rejoinder.load(plain)
    for encoder in (small, full):
        assert {p.dtype for p in encoder.module.parameters() if p.is_floating_point()} == {kind}
        assert (
            encoder.module.reduce(pack(*SUBWORDS.encode_ragged(TEXTS), SUBWORDS.padding_id)).dtype
            == kind
        )
    assert (small.encode_responses(TEXTS) * full.encode_responses(TEXTS)).sum(axis=1).min() > 0.999


def large_floats(entries):
    """Tensors of at least so many floats that are in memory, by their identity."""
    held = (value for value in gc.get_objects() if issubclass(type(value), torch.Tensor))
    return {
        id(value): value for value in held if value.is_floating_point() and value.numel() >= entries
    }


def test_the_table_stays_in_eight_bits(tmp_path):
    """No tensor of floats as large as the table exists, neither after opening nor after encoding."""
    rows = Subwords([MARK, *map(chr, range(0x4E00, 0x4E00 + 5000))])
    module = Convert(small_config(), rows.rows)
    entries = module.embedding.weight.numel()
    save(tmp_path / "full", module, rows, max_length=40, card="")
    del module
    export_quantized(tmp_path / "full", tmp_path / "small")
    gc.collect()
    others = large_floats(entries)  # of models that other tests have left open
    encoder = rejoinder.load(tmp_path / "small", precision="fp32")
    encoder.encode_responses(TEXTS)
    table = encoder.module.embedding
    assert isinstance(table, QuantizedTable)
    assert (table.weight.dtype, table.weight.numel()) == (torch.uint8, entries)
    assert large_floats(entries).keys() <= others.keys()


def test_the_file_holds_bytes_with_scale_and_offset_and_sixteen_bits(tmp_path, plain):
    export_quantized(plain, tmp_path / "small")
    stored, full = (load_file(place / "model.safetensors") for place in (tmp_path / "small", plain))
    for name, values in full.items():
        if stored[name].dtype == torch.uint8:
            scale, offset = stored[f"{name}.scale"], stored[f"{name}.offset"]
            assert (scale.dtype, scale.shape, offset.dtype) == (torch.float32, (), torch.float32)
            assert (stored[name].float() * scale + offset - values).abs().max() <= scale * 0.501
        else:
            assert torch.equal(stored[name], values.half())
    assert [
        name for name, value in stored.items() if value.dtype == torch.uint8 and "subwords" in name
    ]


def test_linear_layers_in_eight_bits_have_a_scale_for_each_row(tmp_path, plain):
    for bits in (16, 8):
        export_quantized(plain, tmp_path / str(bits), linear_bits=bits)
    assert "Embeddings and linear layers in 8 bits" in (tmp_path / "8" / "README.md").read_text()
    stored, full = (load_file(place / "model.safetensors") for place in (tmp_path / "8", plain))
    rows = [name for name, values in stored.items() if values.dtype == torch.int8]
    assert "blocks.0.attention.qkv.weight" in rows
    for name in rows:
        scale = stored[f"{name}.scale"][:, None]
        assert ((stored[name].float() * scale - full[name]).abs() <= scale * 0.501).all()
        assert (stored[name].abs().amax(dim=1) == 127).all()
    for precision in ("fp32", "bf16", "int8"):
        eight, sixteen = (
            rejoinder.load(tmp_path / bits, precision=precision) for bits in ("8", "16")
        )
        alike = (eight.encode_responses(TEXTS) * sixteen.encode_responses(TEXTS)).sum(axis=1)
        assert alike.min() > 0.999
    assert torch.equal(
        load_module(tmp_path / "8")[0].blocks[0].attention.qkv.weight, _row_values(stored)
    )


def _row_values(stored, name="blocks.0.attention.qkv.weight"):
    return stored[name].float() * stored[f"{name}.scale"][:, None]


def test_numbers_too_large_for_float16_go_to_bfloat16(tmp_path):
    module = convert()
    assert half_for(module) == "float16"
    with torch.no_grad():
        module.context_head.output.bias[0] = 1e6
    assert half_for(module) == "bfloat16"
    save(tmp_path / "full", module, SUBWORDS, max_length=40, card="")
    assert export_quantized(tmp_path / "full", tmp_path / "small")["half"] == "bfloat16"
    assert np.isfinite(rejoinder.load(tmp_path / "small").encode_contexts([["hi"]])).all()
    with torch.no_grad():
        module.embedding.weight[3, 0] = float("nan")
    save(tmp_path / "nan", module, SUBWORDS, max_length=40, card="")
    with pytest.raises(InputError, match="not all weights are finite"):
        export_quantized(tmp_path / "nan", tmp_path / "none")


def test_in_float32_it_has_the_very_values_that_it_encodes_with(tmp_path, plain):
    export_quantized(plain, tmp_path / "small")
    module = load_module(tmp_path / "small")[0]
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float32}
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert isinstance(module.embedding, torch.nn.Embedding)
    encoder = rejoinder.load(tmp_path / "small", precision="fp32")
    ids = torch.arange(SUBWORDS.rows)
    assert torch.equal(module.embedding(ids), encoder.module.embedding(ids))
    with torch.no_grad():
        vectors = module.eval().encode(
            pack(*SUBWORDS.encode_ragged(TEXTS, 40), SUBWORDS.padding_id), "response"
        )
    assert np.allclose(vectors.numpy(), encoder.encode_responses(TEXTS), atol=1e-6)


def test_it_is_not_rounded_twice_and_never_replaces_its_model(tmp_path, plain):
    export_quantized(plain, tmp_path / "small")
    module = load_as_validated(tmp_path / "small")[0]
    given = load_module(tmp_path / "small")[0].state_dict()
    assert all(torch.equal(value, given[name]) for name, value in module.state_dict().items())
    with pytest.raises(
        InputError,
        match=r"is a quantised folder already; copy it as it is, or give the model folder",
    ):
        export_quantized(tmp_path / "small", tmp_path / "smaller")

    with pytest.raises(InputError, match="is the model itself"):
        export_quantized(plain, plain)


@pytest.mark.skipif(
    Version(torch.__version__) < Version("2.12"), reason="an older PyTorch imports both itself"
)
def test_opening_imports_neither_the_compiler_nor_symbolic_mathematics(tmp_path):
    """They take seconds, and PyTorch imports them for some functions on the meta device, where models are opened."""
    full = saved(tmp_path / "full", aligned_start=True, zero_residual=True, history=3)
    export_quantized(full, tmp_path / "small")
    code = """
import sys
import rejoinder
rejoinder.load(sys.argv[1]).encode_contexts([["how are you?", "fine"]])
print(sorted({"torch._dynamo", "sympy"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "small")]
    assert subprocess.check_output(command, text=True).strip() == "[]"


def loss(module):
    """A number that depends on all of the network."""
    x, y = module(random_batch(16), contexts=8)
    return (x * y.roll(1, 0)).sum() + (x * torch.linspace(-1, 1, x.shape[1])).sum()


@given(tables)
def test_the_range_has_the_papers_room_and_rounding_is_off_by_half_a_step_at_most(table):
    bounds = bounds_of(table, room=True)
    low, high = bounds.double()
    room = max((table.max().double() - table.min().double()) * 0.1, 0.01)
    slack = 1e-6 * float(table.abs().max()) + 1e-6
    assert table.min() - low == pytest.approx(float(room), rel=1e-4, abs=slack)
    assert high - table.max() == pytest.approx(float(room), rel=1e-4, abs=slack)

    error = (round_to_levels(table, bounds) - table).abs().max()
    assert error <= step_of(bounds) / 2 + 4e-7 * bounds.abs().max()


@given(tables)
def test_codes_fit_into_a_byte_and_rounding_twice_changes_nothing(table):
    bounds = bounds_of(table)
    codes = to_codes(table, bounds)
    assert torch.equal(codes, codes.to(torch.uint8).float())
    assert torch.equal(
        to_codes(round_to_levels(table, bounds), bounds), codes
    ) or bounds.abs().max() * 1e-6 > step_of(bounds)


@given(
    st.lists(
        st.tuples(st.sampled_from([1e-3, 0.1, 1.0, 50.0]), st.integers(0, 2**31)),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 7),
)
def test_no_value_is_ever_outside_its_range(updates, every):
    """After each of any updates, large ones between two fittings included, as REFERENCE's point 10 asks."""
    module = nn.ModuleDict({"words": nn.Embedding(5, 3), "more": nn.Embedding(2, 3)})
    training = QuantizedTraining(module, "bfloat16", range_every=every)
    for step, (size, seed) in enumerate(updates, 1):
        before = training.ranges.bounds.clone()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(
                    torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
                    * size
                )
        training.update_ranges(step)
        for was, bounds, parameter in zip(
            before, training.ranges.bounds, module.parameters(), strict=True
        ):
            assert bounds[0] <= parameter.min()
            assert parameter.max() <= bounds[1]
            left = parameter.min() < was[0] or parameter.max() > was[1]
            fitted = torch.equal(bounds, bounds_of(parameter, room=True))
            assert fitted if left or step % every == 0 else torch.equal(bounds, was)


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_the_gradient_is_that_of_the_rounded_network(half):
    """Straight through: what the copies get, the originals get, to the last bit; nothing is lost in the rounding."""
    module = convert(ROWS)
    training = QuantizedTraining(module, half)
    rounded = Convert(module.config, ROWS)
    rounded.load_state_dict(
        {k: v for k, v in module.state_dict().items() if not k.startswith("quantization.")}
    )
    round_parameters(rounded, training.ranges.scheme())
    with training.rounded():
        value = loss(module)
    value.backward()
    expected = loss(rounded)
    expected.backward()
    assert value.item() == expected.item()
    wanted = dict(rounded.named_parameters())
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, wanted[name].grad), name
    assert module.embedding.weight.grad.abs().sum() > 0


def test_the_network_has_its_own_parameters_again_afterwards_even_after_an_error():
    module = convert(ROWS, feed_forward_2="original")  # with a layer that two parts share
    training = QuantizedTraining(module, "float16")
    before = dict(module.named_parameters())
    with training.rounded():
        assert not list(module.parameters())
        assert not isinstance(module.embedding.weight, nn.Parameter)
        assert module.context_head.input_skip.weight is module.response_head.input_skip.weight
    with pytest.raises(RuntimeError, match="midway"), training.rounded():
        raise RuntimeError("midway")
    after = dict(module.named_parameters())
    assert list(after) == list(before)
    assert all(after[name] is value for name, value in before.items())
    assert all(isinstance(value, nn.Parameter) for value in after.values())


def test_layer_norm_softmax_and_unit_length_stay_in_float32(monkeypatch):
    module = convert(ROWS)
    training = QuantizedTraining(module, "bfloat16")
    kinds = {"norm": set(), "softmax": set()}
    for child in module.modules():
        if isinstance(child, nn.LayerNorm):
            child.register_forward_hook(
                lambda layer, _, out: kinds["norm"].update({layer.weight.dtype, out.dtype})
            )
    plain = torch.softmax

    def noted(*args, **kwargs):
        result = plain(*args, **kwargs)
        kinds["softmax"].add(result.dtype)
        return result

    monkeypatch.setattr(torch, "softmax", noted)
    with torch.autocast("cpu", dtype=torch.bfloat16), training.rounded():
        x, _ = module(random_batch(16), contexts=8)
    assert kinds == {"norm": {torch.float32}, "softmax": {torch.float32}}
    assert x.dtype == torch.float32
    assert torch.allclose(x.norm(dim=1), torch.ones(8), atol=1e-6)
