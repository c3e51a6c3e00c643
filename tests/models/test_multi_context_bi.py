"""The multi-context bi-encoder: it starts as its transformer ranks, padding changes nothing, all of it learns."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from rejoinder.errors import InputError
from rejoinder.models.families import build_module, parse_config
from rejoinder.models.packing import pack, rectangle
from rejoinder.models.persistence import load, save
from rejoinder.text.pretrained import MarkedPretrained
from tests.models.conftest import lively
from tests.models.tiny_transformer import SHAPE, WORDS, tokenizer

KIND = "multi-context-bi-encoder"
LENGTHS = (1, 2, 3, 7, 7, 8, 12, 30)
SIDES = ("context", "history", "response", "reduction")


def marked():
    plain = tokenizer()
    return MarkedPretrained(plain.description, plain.special, plain.rows)


def network(**changes):
    shape = {key: value for key, value in SHAPE.items() if key != "context_length"}
    torch.manual_seed(0)
    return build_module(parse_config({**shape, "kind": KIND, **changes}), tokenizer().rows).eval()


def texts(seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(5, 80, length).astype(np.int32) for length in LENGTHS]


def packed(rows, segment_cost=16):
    return pack(np.concatenate(rows), np.array([len(row) for row in rows], np.int32), 0, segment_cost)


@pytest.mark.parametrize("side", SIDES)
def test_a_text_has_the_same_vector_alone_beside_others_and_padded(side):
    module, rows = lively(network()), texts()
    ids = torch.full((len(rows), 40), 3)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.from_numpy(row)
    with torch.inference_mode():
        alone = torch.cat([module.encode(packed([row]), side) for row in rows])
        together = module.encode(packed(rows[::-1]), side).flip(0)
        one_segment = module.encode(packed(rows, segment_cost=10_000), side)
        padded = module.encode(rectangle(ids, torch.arange(40) < torch.tensor(LENGTHS)[:, None]), side)
    for found in (together, one_segment, padded):
        torch.testing.assert_close(found, alone, atol=1e-5, rtol=1e-4)


def test_an_untrained_model_is_the_mean_of_its_transformers_outputs():
    module, rows = network(), texts()
    with torch.inference_mode():
        means = torch.stack([module.transformer(packed([row])).mean(dim=0) for row in rows])
        unit = F.normalize(means, dim=1)
        for side in ("context", "history", "response"):
            torch.testing.assert_close(module.encode(packed(rows), side), unit)
        torch.testing.assert_close(module.combine(unit[:4], unit[4:]), F.normalize(unit[:4] + unit[4:], dim=1))
        torch.testing.assert_close(module.combine(unit, torch.zeros_like(unit)), unit)


def test_pairs_are_encoded_as_each_text_by_itself():
    module, rows = lively(network()), texts()
    inputs, earlier, responses = rows[:3], rows[3:4], rows[4:]
    with torch.inference_mode():
        found = module.encode_pairs(packed([*inputs, *earlier, *responses]), 3, torch.tensor([1]))
        x, z, y = (
            module.encode(packed(part), side)
            for part, side in ((inputs, "context"), (earlier, "history"), (responses, "response"))
        )
        histories = torch.zeros(3, 16).index_copy(0, torch.tensor([1]), z)
        expected = {"input": x, "history": histories, "context": module.combine(x, histories), "response": y}
    assert found.keys() == expected.keys()
    for name, rows_ in expected.items():
        torch.testing.assert_close(found[name], rows_)


def test_every_parameter_gets_a_gradient_and_is_in_one_group():
    module = lively(network()).train()
    encodings = module.encode_pairs(packed(texts()), 3, torch.tensor([0, 2]))
    sum((rows * torch.randn_like(rows)).sum() for rows in encodings.values()).backward()
    named = dict(module.named_parameters())
    assert [name for name, p in named.items() if p.grad is None or not p.grad.abs().sum()] == []
    grouped = [p for group in module.parameter_groups().values() for p in group]
    assert len(grouped) == len(named)
    assert {id(p) for p in grouped} == {id(p) for p in named.values()}


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_folder_opens_as_an_encoder_of_conversations(tmp_path, precision):
    module = lively(network())
    save(tmp_path / "model", module, marked(), max_length=20, card="# A model\n")
    encoder = load(tmp_path / "model", precision=precision)
    contexts = [["hello there", "how are you"], ["how are you"], ["the cats", "sleep all day", "fine thanks"]]
    vectors = encoder.encode_contexts(contexts)
    closeness = {"fp32": 1 - 1e-5, "bf16": 0.99, "int8": 0.98}[precision]
    ids, lengths = marked().encode_ragged(["how are you", "hello there"], 20)
    with torch.inference_mode():
        batch = pack(ids, lengths, 0)
        x, z = (module.encode(batch, side)[row] for row, side in ((0, "context"), (1, "history")))
        both = module.combine(x[None], z[None])[0]
        alone = module.combine(x[None], torch.zeros(1, 16))[0]
    assert float(vectors[0] @ both.numpy()) > closeness
    assert float(vectors[1] @ alone.numpy()) > closeness
    assert encoder.transfer(["hello there"]).shape == (1, 16)
    assert encoder.score(contexts, [["fine", "cats"]] * 3).shape == (3, 2)


def test_marks_stand_around_every_text_and_count_as_tokens():
    plain, ours = tokenizer(), marked()
    said = [" ".join(WORDS), "", "hello"]
    ids, lengths = plain.encode_ragged(said)
    found, counts = ours.encode_ragged(said)
    assert counts.tolist() == [lengths[0] + 2, 0, lengths[2] + 2]
    assert found.tolist() == [
        plain.start_id, *ids[: lengths[0]], plain.end_id, plain.start_id, *ids[lengths[0] :], plain.end_id
    ]  # fmt: skip
    cut, counts = ours.encode_ragged(said, 4)
    assert counts.tolist() == [4, 0, min(4, lengths[2] + 2)]
    assert cut[:4].tolist() == [plain.start_id, *ids[:2], plain.end_id]
    assert ours.fingerprint != plain.fingerprint


def test_a_model_without_history_is_refused():
    with pytest.raises(InputError, match="history = 0"):
        network(history=0)
