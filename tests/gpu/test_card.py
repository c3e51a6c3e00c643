"""What holds on a CPU holds on a card: vectors, steps, whole runs. Needs a CUDA device."""

import itertools
import json

import numpy as np
import pytest
import torch

import rejoinder
from rejoinder.devices import move
from rejoinder.encoders.export.folder import export_quantized
from rejoinder.networks.pair_batches import SidesBatch
from rejoinder.networks.poly import BiEncoder
from rejoinder.networks.quantization.training import QuantizedTraining
from rejoinder.training.recipe.losses import InBatchLoss, SummedLoss
from rejoinder.training.graphs import CudaRecorder
from rejoinder.training.loop import Trainer, TrainingInterrupted, train
from rejoinder.training.metrics import read_metrics
from tests.encoders import tiny_transformer
from tests.encoders.conftest import lively
from tests.encoders.test_every_model import BUILDERS, packed, sides, texts
from tests.training.test_loop import TWO_STAGES, interrupt_at
from tests.training.test_pretraining import pretraining
from tests.training.tiny import NGRAM, NGRAM_WORDS, recipe, stage, write_data
from tests.training.transformers import write_checkpoint

pytestmark = pytest.mark.gpu

CARD = torch.device("cuda")
NETWORKS = (
    "convert, paper",
    "convert, eight heads",
    "convert, no relative bias",
    "multi-context, paper",
    "n-gram, paper",
    "bi first",
    "bi mean",
    "bi mean of first m",
    "poly learnt",
    "poly last and first",
    "poly-convert",
    "multi-context bi",
    "multi-context bi, relative positions",
)
CONTEXTS = [["Hello!", "How are you?"], ["What time is it now, and where?"], ["a", "b", "c " * 40]]
ON_CARD = {"device": "cuda", "precision": "fp32"}


@pytest.fixture(params=NETWORKS)
def module(request):
    torch.manual_seed(1)
    return lively(BUILDERS[request.param]()).eval()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data") / "chats")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("start") / "bert")


def losses(run):
    return [line["loss"] for line in read_metrics(run / "metrics.jsonl") if "loss" in line]


def unit(vectors):
    return torch.nn.functional.normalize(vectors.double(), dim=-1)


def test_vectors_are_those_of_the_cpu(module):
    rows = texts()
    for side in sides(module):
        with torch.inference_mode():
            here = module.cpu().encode(packed(module, rows), side)
            there = module.to(CARD).encode(move(packed(module, rows, None), CARD), side)
            with torch.autocast("cuda", torch.bfloat16):
                half = module.encode(move(packed(module, rows, None), CARD), side)
        torch.testing.assert_close(there.cpu(), here, atol=1e-4, rtol=1e-4)
        cosines = (unit(half.cpu()) * unit(here)).sum(dim=-1)
        vectors = here.norm(dim=-1) > 0  # a poly-encoder's context may have fewer
        assert cosines[vectors].min() > 0.99, "bfloat16 has three digits"


def test_on_a_card_padding_and_neighbours_change_nothing(module):
    rows = texts()
    module.to(CARD)
    for side in sides(module):
        with torch.inference_mode():
            together = module.encode(move(packed(module, rows, None), CARD), side)
            alone = [module.encode(move(packed(module, [row], None), CARD), side) for row in rows]
        torch.testing.assert_close(together, torch.cat(alone), atol=1e-4, rtol=1e-3)


def gradients(module, device, cost, precision=torch.float32):
    """A step of four pairs, two of them with a history, without its update."""
    rows = [row for row in texts() if len(row)]
    inputs, earlier, responses = rows[:4], rows[4:6] if module.history else [], rows[6:12]
    histories = torch.tensor([[0, 2], [0, 0]] if earlier else [[], []], dtype=torch.int64)
    if isinstance(module, BiEncoder):
        batch = SidesBatch(packed(module, inputs, cost), packed(module, responses, cost))
    else:
        batch = packed(module, [*inputs, *earlier, *responses], cost)
    module.to(device).zero_grad()
    with torch.autocast(device.type, precision, enabled=precision != torch.float32):
        encodings = module.encode_pairs(move(batch, device), 4, histories.to(device))
    loss = SummedLoss(InBatchLoss(0.1))(encodings, scale=5.0, pairs=4)
    loss.value.backward()
    # a copy: moving the module would move its gradients too
    found = {name: p.grad.to_dense().cpu().clone() for name, p in module.named_parameters()}
    return float(loss.value.detach()), found


def test_a_step_has_the_gradients_of_the_cpu(module):
    value, here = gradients(module, torch.device("cpu"), 16)
    on_card, there = gradients(module, CARD, None)
    assert on_card == pytest.approx(value, rel=1e-4)
    for name, gradient in here.items():
        error = (there[name] - gradient).norm()
        assert error <= 1e-3 * gradient.norm() + 1e-5, name


def test_a_step_in_16_bits_has_nearly_the_gradients_of_the_cpu(module):
    value, here = gradients(module, torch.device("cpu"), 16)
    on_card, there = gradients(module, CARD, None, torch.bfloat16)
    assert on_card == pytest.approx(value, rel=0.05)
    before, behind = (torch.cat([g.flatten() for g in each.values()]) for each in (here, there))
    assert torch.nn.functional.cosine_similarity(before, behind, dim=0) > 0.98


def test_a_quantised_step_rounds_as_on_the_cpu():
    module = lively(BUILDERS["multi-context, paper"]()).train()
    batch = packed(module, texts(), None)
    vectors = []
    for device in (torch.device("cpu"), CARD):
        quantized = QuantizedTraining(module.to(device), "float16")
        with torch.no_grad(), quantized.rounded():
            vectors.append(module.eval().encode(move(batch, device), "context").cpu())
    torch.testing.assert_close(vectors[1], vectors[0], atol=1e-4, rtol=1e-3)


RUNS = {
    "convert": {},
    "two stages": {"stage": TWO_STAGES},
    "quantised": {"quantization": {"enabled": True, "range_every": 7}},
    "gradient caching": {"stage": [stage(micro_batch=8)]},
    "hard negatives": {"stage": [stage(hard_negatives={"pool": 100, "every_steps": 10})]},
    "random negatives": {"stage": [stage(negatives=2)]},
    "adadelta": {"stage": [stage(optimizer="adadelta", learning_rate=1.0)]},
    "clipped": {"stage": [stage(clip_norm=0.5)]},
    "n-gram": {"model": NGRAM, "vocabulary": NGRAM_WORDS},
    "learned scale": {"scale": {"learned": True}},
}
OF_TRANSFORMERS = {
    "bi-encoder": {"model": {"kind": "bi-encoder", "reduction": "mean", "context_length": 40}},
    "poly-encoder": {"model": {"kind": "poly-encoder", "m": 4, "context_length": 40}},
    "cross-encoder": {
        "model": {"kind": "cross-encoder", "context_length": 40},
        "stage": [stage(negatives=3, batch_size=16)],
    },
    "multi-context": {"model": {"kind": "multi-context-bi-encoder"}},
    "frozen": {
        "model": {"kind": "multi-context-bi-encoder", "dropout": 0.0},
        "stage": [stage(rates={"embedding": 0.0, "blocks": 0.0})],
    },
}


def run_of(name, data, start, **sections):
    given = (RUNS | OF_TRANSFORMERS)[name] | sections
    if name in OF_TRANSFORMERS:
        given |= {"init": {"transformer": str(start)}, "vocabulary": None}
        given |= {"text": {"max_length": 20}}
    if "compute" not in given:
        given["compute"] = ON_CARD
    return recipe(data, **given)


@pytest.mark.parametrize("name", [*RUNS, *OF_TRANSFORMERS])
def test_a_run_begins_as_on_the_cpu_and_learns(name, data, start, tmp_path):
    plain = {} if name in ("quantised", "two stages") else {"validation": {"examples": 0}}
    train(run_of(name, data, start, **plain), tmp_path / "card")
    processor = {"device": "cpu", "precision": "fp32"}
    train(run_of(name, data, start, **plain, compute=processor), tmp_path / "cpu")
    here, there = losses(tmp_path / "cpu"), losses(tmp_path / "card")
    assert len(here) == len(there)
    assert np.isfinite(there).all()
    # dropout draws other numbers there
    assert there[0] == pytest.approx(here[0], rel=0.2)
    assert abs(np.mean(there[-5:]) - np.mean(here[-5:])) < 0.35 * here[0]
    model = rejoinder.load(tmp_path / "card" / "model", device="cuda", precision="fp32")
    again = rejoinder.load(tmp_path / "card" / "model", precision="fp32")
    candidates = [["one reply", "another", "a third"]] * len(CONTEXTS)
    found = model.score(CONTEXTS, candidates)
    np.testing.assert_allclose(found, again.score(CONTEXTS, candidates), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("name", ["convert", "quantised", "bi-encoder", "cross-encoder"])
def test_a_run_in_16_bits_learns(name, precision, data, start, tmp_path):
    compute = {"device": "cuda", "precision": precision}
    train(run_of(name, data, start, compute=compute, validation={"examples": 0}), tmp_path / "run")
    found = losses(tmp_path / "run")
    assert np.isfinite(found).all()
    assert np.mean(found[-5:]) < np.mean(found[:5])


def test_pretraining_runs(data, tmp_path):
    train(pretraining(data, compute={"device": "cuda", "precision": "bf16"}), tmp_path / "run")
    assert np.isfinite(losses(tmp_path / "run")).all()


def test_an_encoder_and_a_ranker_teach_on_the_card(data, start, tmp_path):
    train(run_of("multi-context", data, start), tmp_path / "teacher")
    teacher = str(tmp_path / "teacher" / "model")
    for number, taught in enumerate(
        [{"encoder": teacher, "vectors": 1.0}, {"teacher": teacher, "candidates": 4}]
    ):
        run = tmp_path / f"student-{number}"
        train(run_of("convert", data, start, distillation={"share": 0.5, **taught}), run)
        assert np.isfinite(losses(run)).all()


def test_an_anchored_trunk_learns(data, start, tmp_path):
    train(run_of("multi-context", data, start), tmp_path / "first")
    init = {"model": str(tmp_path / "first" / "model"), "anchor": 1.0}
    given = {"init": init, "vocabulary": None, "model": {"dropout": 0.0}}
    given |= {"text": {"max_length": 20}, "validation": {"examples": 0}}
    train(recipe(data, **given, compute=ON_CARD), tmp_path / "run")
    assert np.isfinite(losses(tmp_path / "run")).all()
    assert "loss_anchor" in (tmp_path / "run" / "metrics.jsonl").read_text()


REPLAYED = (
    "convert",
    "two stages",
    "quantised",
    "hard negatives",
    "learned scale",
    "adadelta",
    "clipped",
    "bi-encoder",
    "poly-encoder",
    "cross-encoder",
    "multi-context",
    "frozen",
)


@pytest.mark.parametrize(
    ("name", "precision"),
    [*((name, "fp32") for name in REPLAYED), ("bi-encoder", "bf16"), ("multi-context", "bf16")],
)
def test_replayed_steps_are_those_that_come(name, precision, data, start, tmp_path, monkeypatch):
    record = CudaRecorder.__call__
    recorded = itertools.count()

    def counting(self, work):
        done = record(self, work)
        next(recorded)
        return done

    monkeypatch.setattr(CudaRecorder, "__call__", counting)
    wanted = run_of(name, data, start, compute={"device": "cuda", "precision": precision})
    train(wanted, tmp_path / "replayed")
    assert next(recorded) > 0
    monkeypatch.setattr(Trainer, "_graphed_passes", lambda *_: None)
    train(wanted, tmp_path / "plain")
    # sums of a card's atomic additions have no fixed order
    assert losses(tmp_path / "replayed") == pytest.approx(losses(tmp_path / "plain"), rel=0.02)


def test_a_step_that_waits_for_the_card_is_not_recorded(data, start, tmp_path, monkeypatch):
    passes = Trainer._passes

    def waiting(self, batch, scale):
        loss = passes(self, batch, scale)
        return loss._replace(figures={"waited": loss.value * float(loss.value)})

    monkeypatch.setattr(Trainer, "_passes", waiting)
    with pytest.warns(UserWarning, match="cannot be recorded"):
        train(run_of("convert", data, start), tmp_path / "run")
    assert losses(tmp_path / "run")[-1] < losses(tmp_path / "run")[0]


def test_a_run_goes_on_from_its_checkpoint(data, start, tmp_path):
    wanted = run_of("convert", data, start)
    train(wanted, tmp_path / "whole")
    with pytest.raises(TrainingInterrupted):
        train(wanted, tmp_path / "cut", display=interrupt_at(7))
    train(wanted, tmp_path / "cut")
    # sums of a card's atomic additions have no fixed order
    assert losses(tmp_path / "cut") == pytest.approx(losses(tmp_path / "whole"), rel=0.02)


def test_no_shape_is_prepared_for():
    """After five steps none of fifty, of random lengths, takes three times the median."""
    module = tiny_transformer.network("bi mean", hidden_size=64, blocks=6, positions=512)
    module.to(CARD)
    generator = np.random.default_rng(0)
    times = []
    for _ in range(55):
        lengths = generator.integers(1, 200, 64)
        batch = move(packed(module, texts(tuple(lengths)), None), CARD)
        torch.cuda.synchronize()
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        with torch.autocast("cuda", torch.bfloat16):
            module.encode(batch, "context").square().sum().backward()
        ended.record()
        torch.cuda.synchronize()
        times.append(began.elapsed_time(ended))
    assert max(times[5:]) < 3 * float(np.median(times[5:]))


def test_a_bundled_model_and_its_eight_bits_encode_and_index_on_a_card(tmp_path):
    card, cpu = (rejoinder.load("bi-small", device=d, precision="fp32") for d in ("cuda", "cpu"))
    here, there = cpu.encode_contexts(CONTEXTS), card.encode_contexts(CONTEXTS)
    np.testing.assert_allclose(there, here, atol=1e-4)
    half = rejoinder.load("bi-small", device="auto").encode_contexts(CONTEXTS)
    assert (half * here).sum(axis=1).min() > 0.999
    replies = ["We open at nine.", "Your card is on its way.", "I am fine.", "By card or cash."]
    many = [f"{text} {number}" for number in range(9000) for text in (" where  is it?", "Ökonomie!")]
    vectors = rejoinder.load("bi-small", device="cuda").encode_responses(many)
    places = [0, 1, 8191, 8192, 17_999]
    alone = cpu.encode_responses([many[place] for place in places])
    assert (vectors[places] * alone).sum(axis=1).min() > 0.999
    index = rejoinder.Index.build(card, replies, tmp_path / "index")
    assert index.search([["How are you?"]], k=1)[0][0].text == "I am fine."


def test_a_small_folder_in_few_bits_opens_on_a_card(data, start, tmp_path):
    train(run_of("quantised", data, start), tmp_path / "run")
    export_quantized(tmp_path / "run" / "model", tmp_path / "small")
    vectors = [
        rejoinder.load(tmp_path / "small", device=device, precision="fp32").encode_responses(["abc"])
        for device in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(vectors[1], vectors[0], atol=1e-4)


def test_a_step_of_the_papers_convert_fits_a_small_card():
    """512 pairs with ten earlier messages in bfloat16: less than 8 GB."""
    from rejoinder.encoders.families import build_module, parse_config

    module = build_module(parse_config({"kind": "convert", "history": 10}), 31_476).to(CARD)
    generator = np.random.default_rng(0)
    lengths = np.concatenate([generator.integers(2, 30, 1024), generator.integers(20, 60, 512)])
    rows = [generator.integers(5, 31_000, length).astype(np.int32) for length in lengths]
    order = [*range(512), *range(1024, 1536), *range(512, 1024)]
    batch = move(packed(module, [rows[place] for place in order], None), CARD)
    owners = torch.arange(512, device=CARD)
    torch.cuda.reset_peak_memory_stats()
    with torch.autocast("cuda", torch.bfloat16):
        encodings = module.encode_pairs(batch, 512, torch.stack([owners, owners * 0]))
    SummedLoss(InBatchLoss(0.2))(encodings, scale=20.0, pairs=512).value.backward()
    assert torch.cuda.max_memory_allocated() < 8 * 2**30


def test_metrics_are_read_without_waiting_in_between(data, start, tmp_path):
    """Nothing in a step waits for the card: CUDA's own check of synchronisations raises."""
    from rejoinder.training import loop

    step = loop.Trainer._step
    seen = itertools.count()

    def checked(self, stage, batches):
        if next(seen) < 3:  # what is made once
            return step(self, stage, batches)
        torch.cuda.set_sync_debug_mode("error")
        try:
            return step(self, stage, batches)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.Trainer, "_step", checked)
        train(
            run_of("convert", data, start, compute={"device": "cuda", "precision": "bf16"}),
            tmp_path / "run",
        )
    assert next(seen) > 10
    assert json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
