"""Steps that are replayed where shapes return compute what steps that are not do."""

import numpy as np
import pytest
import torch

from rejoinder.networks.packing import pack
from rejoinder.training import graphs, loop, parts
from rejoinder.training.data.batches import FEWEST_PAIRS, StepBatch
from rejoinder.training.graphs import GraphedPasses
from rejoinder.training.loop import train
from rejoinder.training.recipe.losses import InBatchLoss, Loss
from tests.training.tiny import MODEL, NGRAM, NGRAM_WORDS, checkpoint_of, recipe, stage, write_data
from tests.training.transformers import write_checkpoint


class Rerun:
    """Stands in for a card: what is recorded is computed again, from the same tensors."""

    def __init__(self):
        self.recorded = 0
        self.replayed = 0

    def __call__(self, work):
        self.recorded += 1
        loss = work()

        def replay():
            self.replayed += 1
            value, accuracy, figures = work()
            loss.value.copy_(value)
            loss.accuracy.copy_(accuracy)
            for name, figure in figures.items():
                loss.figures[name].copy_(figure)

        return replay, loss


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data") / "chats")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("start") / "bert")


def bi_encoder(start):
    return {
        "init": {"transformer": str(start)},
        "model": {"kind": "bi-encoder", "reduction": "mean", "context_length": 40},
        "vocabulary": None,
    }


def of_messages(start, **choices):
    model = {"kind": "multi-context-bi-encoder", "history": 3, **choices}
    return {**bi_encoder(start), "model": model, "text": {"max_length": 20}}


def of(name, start):
    return {
        "convert": {},
        "quantised": {"quantization": {"enabled": True, "range_every": 7}},
        "two stages": {"stage": [stage(active_blocks=1), stage(clip_norm=0.5)]},
        "learned scale": {"scale": {"learned": True}},
        "random negatives": {"stage": [stage(negatives=2)]},
        "n-gram": {"model": NGRAM, "vocabulary": NGRAM_WORDS},
        "multi-context": {"model": {**MODEL, "history": 3}},
        "multi-context bi-encoder": of_messages(start),
        "frozen trunk": {
            **of_messages(start, dropout=0.0),
            "stage": [stage(rates={"embedding": 0.0, "blocks": 0.0})],
        },
        "anchored trunk": {
            **of_messages(start, dropout=0.0),
            "init": {"transformer": str(start), "anchor": 1.0},
            "validation": {"examples": 0},
        },
        "bi-encoder": bi_encoder(start),
        "poly-encoder": {
            **bi_encoder(start),
            "model": {"kind": "poly-encoder", "m": 4, "context_length": 40},
        },
        "cross-encoder": {
            **bi_encoder(start),
            "model": {"kind": "cross-encoder", "context_length": 40},
            "stage": [stage(negatives=3)],
        },
    }[name]


def trained(wanted, run, monkeypatch, record):
    """The checkpoint of a run in a card's layout, whose steps are replayed by `record` if any."""

    def graphed(trainer, _):
        if record is None:
            return None
        return GraphedPasses(
            trainer._passes, trainer.module.parameters(), torch.device("cpu"), record
        )

    monkeypatch.setattr(parts, "uses_segments", lambda _: False)
    monkeypatch.setattr(loop, "uses_segments", lambda _: False)
    monkeypatch.setattr(loop.Trainer, "_graphed_passes", graphed)
    train(wanted, run)
    return checkpoint_of(run)


RETURN = (
    "convert",
    "quantised",
    "two stages",
    "learned scale",
    "multi-context",
    "multi-context bi-encoder",
    "frozen trunk",
    "anchored trunk",
    "bi-encoder",
    "poly-encoder",
    "cross-encoder",
)


@pytest.mark.parametrize("name", RETURN)
def test_a_run_is_the_same_with_its_steps_replayed(name, data, start, tmp_path, monkeypatch):
    wanted = recipe(data, **of(name, start))
    record = Rerun()
    replayed = trained(wanted, tmp_path / "replayed", monkeypatch, record)
    plain = trained(wanted, tmp_path / "plain", monkeypatch, None)
    assert record.replayed >= 5
    assert replayed.state.sums == pytest.approx(plain.state.sums)
    for key, value in plain.tensors.items():
        torch.testing.assert_close(replayed.tensors[key], value, rtol=1e-5, atol=1e-6, msg=key)


@pytest.mark.parametrize("name", ["n-gram", "random negatives"])
def test_what_returns_rarely_or_never_is_the_same_too(name, data, start, tmp_path, monkeypatch):
    """Sparse gradients are never recorded."""
    wanted = recipe(data, **of(name, start))
    record = Rerun()
    replayed = trained(wanted, tmp_path / "replayed", monkeypatch, record)
    plain = trained(wanted, tmp_path / "plain", monkeypatch, None)
    assert record.recorded == 0 or name != "n-gram"
    for key, value in plain.tensors.items():
        torch.testing.assert_close(replayed.tensors[key], value, rtol=1e-5, atol=1e-6, msg=key)


def batch_of(shape, weight=0.0):
    return StepBatch((), 2, 0, torch.zeros(2, shape, dtype=torch.int64), {}, np.zeros(2), weight)


def test_a_number_that_is_no_tensor_makes_another_graph():
    weight = torch.nn.Parameter(torch.ones(1))

    def passes(batch, scale):
        value = (weight * scale * batch.weight * batch.equal.shape[1]).sum()
        value.backward()
        return Loss(value.detach(), torch.zeros(()))

    record = Rerun()
    graphed = GraphedPasses(passes, [weight], torch.device("cpu"), record)
    for number, (shape, factor) in enumerate([(1, 1.0), (1, 2.0), (2, 1.0)] * 4):
        weight.grad = None
        loss = graphed(batch_of(shape, factor), float(number))
        assert float(loss.value) == shape * factor * number
        assert float(weight.grad) == shape * factor * number
    assert record.recorded == 3
    assert record.replayed == 6


def test_graphs_and_shapes_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 2)
    monkeypatch.setattr(graphs, "MOST_SHAPES", 5)
    weight = torch.nn.Parameter(torch.ones(1))

    def passes(batch, scale):
        value = weight.sum() * scale + len(batch.rows)
        value.backward()
        return Loss(value.detach(), torch.zeros(()))

    record = Rerun()
    graphed = GraphedPasses(passes, [weight], torch.device("cpu"), record)
    for _ in range(3):
        for shape in range(8):
            graphed(batch_of(shape), 1.0)
    assert len(graphed._seen) <= 5
    for _ in range(3):
        for shape in range(4):
            graphed(batch_of(shape), 1.0)
    assert record.recorded == 2


def test_packed_padding_makes_numbers_of_tokens_return():
    generator = np.random.default_rng(0)
    for texts, most in ((8, 5), (128, 2), (1024, 2)):
        counts = set()
        for _ in range(50):
            lengths = generator.integers(1, 61, texts).astype(np.int32)
            batch = pack(np.ones(lengths.sum(), np.int32), lengths, 0, segment_cost=None)
            counts.add(batch.computed_tokens)
            assert batch.real_tokens == lengths.sum()
            assert batch.computed_tokens <= 1.5 * batch.real_tokens + 256
            assert len(set(batch.padding.inside.tolist())) == batch.computed_tokens
        assert len(counts) <= most


def test_a_repeated_pair_of_equal_responses_counts_once():
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(6, 4, generator=generator, requires_grad=True) for _ in range(2))
    equal = torch.tensor([[0, 3, 3], [3, 0, 5]])
    repeated = torch.cat([equal, equal[:, -1:].expand(2, FEWEST_PAIRS - 3)], dim=1)
    for sides in ((x, y), (x[:, None], y)):
        found = []
        for pairs in (equal, repeated):
            loss = InBatchLoss(0.2)(*sides, scale=3.0, equal=pairs)
            found.append((loss.value.detach(), *torch.autograd.grad(loss.value, [x, y])))
        torch.testing.assert_close(found[0], found[1])


def test_a_shape_that_comes_once_is_not_recorded():
    record = Rerun()
    weight = torch.nn.Parameter(torch.ones(1))

    def passes(batch, scale):
        return Loss(weight.detach() * scale, batch.equal.sum())

    graphed = GraphedPasses(passes, [weight], torch.device("cpu"), record)
    for shape in range(5):
        graphed(batch_of(shape), 1.0)
    assert record.recorded == 0


def test_a_step_that_cannot_be_recorded_is_computed_as_it_comes():
    weight = torch.nn.Parameter(torch.ones(1))

    def passes(batch, scale):
        value = weight.sum() * scale * batch.equal.shape[1]
        value.backward()
        return Loss(value.detach(), torch.zeros(()))

    def refuse(work):
        work()
        raise RuntimeError("operation not permitted when stream is capturing\nmore lines")

    graphed = GraphedPasses(passes, [weight], torch.device("cpu"), refuse)

    def steps():
        for number in range(5):
            weight.grad = None
            assert float(graphed(batch_of(3), float(number)).value) == 3 * number
            assert float(weight.grad) == 3 * number

    with pytest.warns(UserWarning, match="operation not permitted when stream is capturing$") as told:
        steps()
    assert len(told) == 1
