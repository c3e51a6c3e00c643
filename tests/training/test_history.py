"""Earlier messages on their way through training: token stores, batches, losses, whole runs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rejoinder
from rejoinder.corpora.schema import Example
from rejoinder.corpora.forms.examples import write_examples
from rejoinder.errors import InputError
from rejoinder.text.history import HistoryText
from rejoinder.text.vocabulary_building import build_subwords
from rejoinder.training.loop import train
from rejoinder.training.recipe.losses import ContextMask, InBatchLoss, SummedLoss
from rejoinder.training.metrics import read_metrics
from rejoinder.training.negatives import Miner
from rejoinder.training.recipe.stages import HardNegatives
from rejoinder.training.recipe_files import parse_recipe
from rejoinder.training.data.tokenising import Encode, build_store
from rejoinder.training.data.tokens import join_stores, open_store
from tests.training.test_batches import histories, store
from tests.training.test_losses import equal_of, naive, units
from tests.training.tiny import MODEL, document, recipe, stage

TOKENIZER = build_subwords(
    ["hello there", "how are you", "fine thanks", "at noon"], minimum_count=1
)


def multi(data, **sections):
    return recipe(data, **{"model": {**MODEL, "history": 10}, **sections})


def test_a_store_may_hold_histories_newest_message_first(tmp_path):
    data, first = tmp_path / "data", Example(("at noon", "hello", "how are you"), "fine")
    empty = Example(("hello", "", "how"), "")  # no response: left out with its history
    examples = [
        first,
        Example(("hello there",), "at noon"),
        empty,
        Example(("  ", "how"), "thanks"),
    ]
    write_examples(examples, data / "train-0.parquet")
    build_store(tmp_path / "store", data, "train", Encode(TOKENIZER, 5, HistoryText(numbered=True)))
    opened = open_store(tmp_path / "store")
    assert isinstance(opened.history.texts.ids, np.memmap)
    ids, lengths, places = opened.history.gather(np.arange(3))
    assert ids.tolist() == TOKENIZER.encode("0: hello 1: at noon")[:5]
    assert lengths.tolist() == [5]
    assert places.tolist() == [[0], [0]]
    plain = build_store(tmp_path / "plain", data, "train", Encode(TOKENIZER, 5))
    assert plain.history is None
    assert plain.response_hash.tolist() == opened.response_hash.tolist()
    assert not list((tmp_path / "plain").glob("history*"))


@settings(max_examples=30)
@given(data=st.data())
def test_histories_of_several_texts_come_back_from_one_store_and_from_several(
    data, tmp_path_factory
):
    """Each message apart: every example's messages, newest first, and those of the persona, in their slots."""
    words = st.sampled_from(["hello", "at noon", "your persona: how are you", "  ", "fine thanks"])
    contexts = data.draw(st.lists(st.lists(words, max_size=5), min_size=2, max_size=6))
    reading, folder = (
        HistoryText(2, persona_first=True, apart=True),
        tmp_path_factory.mktemp("stores"),
    )
    stores = []
    for part, some in enumerate((contexts[:1], contexts[1:])):
        write_examples(
            [Example((*c, "hello"), "at noon") for c in some],
            folder / f"{part}" / "train-0.parquet",
        )
        stores.append(
            build_store(
                folder / f"store{part}", folder / f"{part}", "train", Encode(TOKENIZER, 5, reading)
            )
        )
    rows = np.array(data.draw(st.lists(st.integers(0, len(contexts) - 1), min_size=1, max_size=8)))
    ids, lengths, places = join_stores(stores).history.gather(rows)
    texts = np.split(ids, np.cumsum(lengths)[:-1])[: len(lengths)]
    found = [(*place, text.tolist()) for *place, text in zip(*places.tolist(), texts, strict=True)]
    expected = [
        (owner, slot, TOKENIZER.encode(text)[:5])
        for owner, row in enumerate(rows.tolist())
        for slot, text in reading.texts((*contexts[row], "hello"))
    ]
    assert found == expected


def test_a_known_answer_is_one_to_the_same_input_after_the_same_history():
    """All inputs are equal; the responses to one context may be negatives of another."""
    examples = replace(store([[1]] * 3, [[2], [3], [4]]), history=histories([[8], [8], [9]]))
    table = torch.eye(5)

    def encode(batch):
        ids = batch.tokens.ids[batch.tokens.restore]
        return table[ids[: batch.pairs]], table[ids[-batch.pairs :]]

    miner = Miner(
        examples, HardNegatives(), encode, lambda batch: table[batch.ids[batch.restore]], 99
    )
    mined = miner(np.arange(3), np.arange(3), int)[0]
    assert mined[:2].tolist() == [[2], [2]], "2 and 3 both answer the first two contexts"
    assert mined[2].tolist() in ([0], [1])


@settings(max_examples=40)
@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=9),
    smoothing=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 1000),
)
def test_three_losses_are_summed_and_contexts_without_history_left_out_of_one(
    rows, smoothing, seed
):
    groups, has_history = [group for group, _ in rows], [there for _, there in rows]
    x, z, both, y = (units(len(rows), 4, seed + part) for part in range(4))
    present = torch.tensor(has_history)
    encodings = {"input": x, "history": z * present[:, None], "context": both, "response": y}
    having = {"history": ContextMask(present, present.sum().float())}
    found = SummedLoss(InBatchLoss(smoothing))(encodings, 5.0, equal_of(groups), present=having)
    expected = {
        "loss_input": naive(x, y, 5.0, smoothing, groups),
        "loss_history": naive(z, y, 5.0, smoothing, groups, has_history),
        "loss_context": naive(both, y, 5.0, smoothing, groups),
    }
    assert {name: float(found.figures[name]) for name in expected} == pytest.approx(
        expected, abs=2e-5
    )
    assert float(found.value) == pytest.approx(sum(expected.values()), abs=5e-5)
    assert float(found.accuracy) == float(found.figures["accuracy_context"])


def test_without_any_history_in_the_data_it_trains_all_the_same(tmp_path):
    examples = [
        Example(("hello there",), f"word {number}", thread=str(number)) for number in range(64)
    ]
    write_examples(examples, tmp_path / "data" / "train-0.parquet")
    train(
        multi(tmp_path / "data", stage=[stage(steps=3)], validation={"examples": 0}),
        tmp_path / "run",
    )
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "loss" in line]
    assert [line["loss_history"] for line in lines] == [0.0] * 3
    assert all(line["loss_context"] > 0 for line in lines)


def test_histories_mixing_fine_tuning_and_hard_negatives_go_together(tmp_path, data):
    """A run that starts from a multi-context model, with two sets in every batch and mined negatives, in parts."""
    train(multi(data, stage=[stage(steps=10)]), tmp_path / "first")
    hard = {"per_pair": 2, "pool": 100, "every_steps": 4}
    document_ = document(data, stage=[stage(steps=8, hard_negatives=hard, micro_batch=10)])
    del document_["vocabulary"], document_["model"]
    document_ |= {
        "init": {"model": str(tmp_path / "first" / "model")},
        "model": {"numbered_history": True},
    }
    document_["data"] |= {"mix": [{"train": str(data), "share": 0.5}]}
    train(parse_recipe(document_), tmp_path / "second")
    lines = [line for line in read_metrics(tmp_path / "second" / "metrics.jsonl") if "loss" in line]
    assert len(lines) == 8
    assert lines[0]["loss"] == pytest.approx(
        sum(lines[0][f"loss_{part}"] for part in ("input", "history", "context"))
    )
    model = rejoinder.load(tmp_path / "second" / "model").module
    assert model.history == HistoryText(10, numbered=True)


def test_a_gate_histories_that_change_and_cut_middles_are_trained_on_top_of_a_model(tmp_path, data):
    """What makes a model of old conversations mind the newest message; the model folder says all of it."""
    train(multi(data, stage=[stage(steps=10)]), tmp_path / "first")
    document_ = document(data, stage=[stage(steps=8, input_negatives=True, micro_batch=10)])
    del document_["vocabulary"]
    document_ |= {
        "init": {"model": str(tmp_path / "first" / "model")},
        "model": {"history_gate": True},
    }
    document_ |= {
        "history": {"left_out": 0.1, "swapped": 0.3, "new_subject": 0.5},
        "text": {"cut": "middle"},
    }
    train(parse_recipe(document_), tmp_path / "second")
    model = rejoinder.load(tmp_path / "second" / "model", precision="fp32")
    slope, threshold = model.module.gate.slope.item(), model.module.gate.threshold.item()
    assert (slope, threshold) != (10.0, 0.1)
    assert (slope, threshold) == pytest.approx((10.0, 0.1), abs=0.5)
    assert model.tokenizer.cut == "middle"
    contexts = [["hello there", "how are you"]]
    x, z = (
        torch.from_numpy(model.by(part).encode_contexts(contexts)) for part in ("input", "history")
    )
    opens = model.module.gate.opens
    assert opens.abs().max() > 0
    gated = z / (
        1 + torch.exp(len(opens) ** 0.5 * (x @ opens) - slope * ((x * z).sum() - threshold))
    )
    with torch.no_grad():
        wanted = model.module.mix(x, gated).numpy()
    assert model.encode_contexts(contexts) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            {"history": {"swapped": 0.1}},
            r"\[history\] changes earlier messages, which this model does not read apart",
        ),
        ({"history": {"swapped": 0.6, "left_out": 0.6}}, "more than all pairs"),
        ({"model": {**MODEL, "history_gate": True}}, "false where history = 0"),
        ({"stage": [stage(negatives=1, input_negatives=True)]}, "at most one of"),
        ({"text": {"cut": "start"}}, "'end' or 'middle'"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, data, sections, said):
    with pytest.raises(InputError, match=said):
        train(recipe(data, **sections), tmp_path / "run")
