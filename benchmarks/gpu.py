"""Training, scoring and encoding on a card, beside sentence-transformers, in one run.

    python benchmarks/gpu.py --data DATA --start FOLDER
    python benchmarks/gpu.py --data DATA --start FOLDER --device cpu --seconds 2   # a smoke test

DATA is a folder of examples (`rejoinder data`). FOLDER is a model of sentence-transformers, such as
all-MiniLM-L6-v2; without its weights, random ones are made. Both sides have the same weights,
texts, batches, loss, optimiser and precision (bf16). Nothing else may run on the machine. Each
piece takes about `--seconds`.

The peer's training tokenises in every step, as its trainer does; a second figure leaves that out.
PyTorch's attention through cuDNN, which PyTorch prefers on Hopper cards, is on for the peer as it
comes, and off in the figure beside it. `busy` is the card's utilisation, as its driver counts it,
while a piece is measured: in training from half of the steps to the last.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from common import write_result
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.corpora.schema import Example
from rejoinder.encoders.export.checkpoints import fill, load_tokenizer, read_shape
from rejoinder.encoders.families import build_module, parse_config
from rejoinder.encoders.persistence import load, save
from rejoinder.training.loop import train
from rejoinder.training.metrics import read_metrics
from rejoinder.training.recipe_files import load_recipe

MAX_LENGTH = 72
CONTEXT_LENGTH = 128
RATE = 1e-5
SCALE = 20.0  # of the cosine, the peer's default
COUNTED_FROM = 10  # steps of a line of the log; the first half of a run makes what is made once
RECIPES = Path(__file__).parent.parent / "recipes"


@dataclass
class Bench:
    """What all pieces share, and their figures."""

    data: Path
    start: Path
    folder: Path
    device: torch.device
    seconds: float
    examples: list[Example]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, piece: str, unit: str, **figures: float) -> None:
        """Note the figures of a piece."""
        self.rows.append({"piece": piece, "unit": unit, **figures})
        shown = ", ".join(f"{name} {value:,.0f}" for name, value in figures.items())
        print(f"{piece} ({unit}): {shown}", flush=True)

    @property
    def steps(self) -> int:
        """Return a number of steps that is enough on a card."""
        return 150 if self.device.type == "cuda" else COUNTED_FROM + 2


def main() -> None:
    """Measure, print a table, write `results/gpu.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=6.0, help="of a piece")
    parser.add_argument("--only", nargs="*", choices=PIECES, default=list(PIECES))
    options = parser.parse_args()
    examples = list(islice(read_examples(options.data, "train"), 30_000))
    with tempfile.TemporaryDirectory() as name:
        start = with_weights(options.start, Path(name) / "start")
        bench = Bench(
            data=options.data,
            start=start,
            folder=Path(name),
            device=torch.device(options.device),
            seconds=options.seconds,
            examples=examples,
        )
        failed = []
        for piece in options.only:
            try:
                PIECES[piece](bench)
            except Exception:  # noqa: BLE001 (a card is lent for minutes: the other pieces still count)
                traceback.print_exc()
                failed.append(piece)
    cuda = bench.device.type == "cuda"
    card = torch.cuda.get_device_name() if cuda else "no card"
    table = Table(title=f"{card}, PyTorch {torch.__version__}")
    for column in ("piece", "unit", "figures"):
        table.add_column(column)
    for row in bench.rows:
        figures = {k: v for k, v in row.items() if k not in ("piece", "unit")}
        shown = ", ".join(f"{name} {value:,.3g}" for name, value in figures.items())
        table.add_row(row["piece"], row["unit"], shown)
    Console().print(table)
    write_result("gpu", {"card": card, "rows": bench.rows})
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def with_weights(given: Path, folder: Path) -> Path:
    """Return a folder with weights: the one given, or a copy with random ones."""
    if (given / "model.safetensors").is_file():
        return given
    from transformers import BertConfig, BertModel

    shutil.copytree(given, folder)
    torch.manual_seed(0)
    BertModel(BertConfig.from_pretrained(given)).save_pretrained(folder)
    return folder


@contextmanager
def watched(device: torch.device) -> Iterator[Callable[[float, float], float]]:
    """Sample the card's utilisation meanwhile; return its mean in % between two moments."""
    samples: list[tuple[float, int]] = []
    done = threading.Event()

    def sample() -> None:
        while not done.wait(0.05):
            samples.append((time.monotonic(), torch.cuda.utilization(device)))

    def busy(since: float, until: float) -> float:
        shares = [share for moment, share in samples if since <= moment <= until]
        return statistics.fmean(shares) if shares else 0.0

    thread = threading.Thread(target=sample, daemon=True)
    if device.type == "cuda":
        thread.start()
    try:
        yield busy
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()


def our_rate(bench: Bench, recipe: str, settings: Sequence[str], name: str) -> tuple[float, float]:
    """Return examples a second of the training loop, and how busy the card was in %."""
    shared = [
        "validation.examples=0",
        f"log.every_steps={COUNTED_FROM}",
        "checkpoint.every_seconds=3600",
        f"compute.device={bench.device.type}",
        "compute.precision=bf16",
        f"data.train={bench.data}",
        f"data.cache={bench.folder / 'tokens'}",
    ]
    run = bench.folder / "runs" / name
    moments: list[float] = []

    def clock() -> float:
        moments.append(time.monotonic())  # it is asked in every step
        return moments[-1]

    with watched(bench.device) as busy:
        train(load_recipe(RECIPES / recipe, [*shared, *settings]), run, clock=clock)
        share = busy(moments[len(moments) // 2], moments[-1])
    lines = [line for line in read_metrics(run / "metrics.jsonl") if "examples_per_second" in line]
    rates = [line["examples_per_second"] for line in lines[len(lines) // 2 :]]
    return statistics.median(rates), share


def rate_of(bench: Bench, step: Callable[[], int]) -> float:
    """Return what a step does a second, of steps that are repeated for the time of a piece."""
    for _ in range(3):
        step()
    _wait(bench.device)
    began = time.perf_counter()
    count = 0
    while time.perf_counter() - began < bench.seconds:
        count += step()
    _wait(bench.device)
    return count / (time.perf_counter() - began)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def cudnn_attention(enabled: bool) -> Iterator[None]:
    """Let PyTorch choose cuDNN's attention, or not."""
    before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(enabled)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def bi_encoder(bench: Bench, batch: int) -> None:
    """Fine-tune a bi-encoder from the start's weights."""
    settings = [
        f"init.transformer={bench.start}",
        "model.similarity=cosine",
        "model.dropout=0.1",
        f"model.context_length={MAX_LENGTH}",
        f"text.max_length={MAX_LENGTH}",
        f"scale.last={SCALE}",
        f"stage.0.batch_size={batch}",
        f"stage.0.steps={bench.steps}",
        f"stage.0.learning_rate={RATE}",
        "stage.0.rates={}",
    ]
    ours, busy = our_rate(bench, "poly/bi-small.toml", settings, f"bi-{batch}")
    peer = {}
    for cudnn in (True, False):
        with cudnn_attention(cudnn):
            peer[cudnn] = [peer_training(bench, batch, ahead) for ahead in (False, True)]
    bench.add(
        f"bi-encoder, batch {batch}",
        "pairs/s",
        ours=ours,
        busy=busy,
        peer=peer[True][0],
        peer_without_cudnn=peer[False][0],
        peer_tokenised_ahead=peer[True][1],
        peer_tokenised_ahead_without_cudnn=peer[False][1],
    )


def peer_training(bench: Bench, batch: int, ahead: bool) -> float:
    """Return pairs a second of sentence-transformers' model and loss in a plain loop."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = SentenceTransformer(str(bench.start), device=str(bench.device))
    model.max_seq_length = MAX_LENGTH
    loss = MultipleNegativesRankingLoss(model, scale=SCALE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    tokenize = getattr(model, "preprocess", None) or model.tokenize
    pairs = [(" ".join(each.context), each.response) for each in bench.examples]
    starts = range(0, len(pairs) - batch, batch)

    def features(start: int) -> list[dict[str, Any]]:
        chosen = pairs[start : start + batch]
        sides = [tokenize([pair[side] for pair in chosen]) for side in (0, 1)]
        return [
            {k: v.to(bench.device) if isinstance(v, torch.Tensor) else v for k, v in each.items()}
            for each in sides
        ]

    made = [features(start) for start in islice(starts, 20)] if ahead else []
    turn = iter(range(10**9))
    model.train()

    def step() -> int:
        number = next(turn)
        given = made[number % len(made)] if ahead else features(starts[number % len(starts)])
        with torch.autocast(bench.device.type, torch.bfloat16):
            value = loss(given, None)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return batch

    return rate_of(bench, step)


def cross_encoder(bench: Bench) -> None:
    """Score candidates with a cross-encoder."""
    from sentence_transformers import CrossEncoder

    shape = vars(read_shape(bench.start)).copy()
    config = parse_config({**shape, "kind": "cross-encoder", "context_length": CONTEXT_LENGTH})
    tokenizer = load_tokenizer(bench.start)
    module = build_module(config, tokenizer.rows)
    fill(module.transformer, bench.start)
    save(bench.folder / "cross", module, tokenizer, max_length=MAX_LENGTH, card="# Cross\n")
    model = load(bench.folder / "cross", device=str(bench.device), precision="bf16")
    contexts = [each.context for each in bench.examples[:64]]
    candidates = [[e.response for e in bench.examples[i : i + 100]] for i in range(64)]
    began = time.monotonic()
    with watched(bench.device) as busy:
        ours = rate_of(bench, lambda: model.score(contexts, candidates).size)
        share = busy(began, time.monotonic())
    peer = CrossEncoder(str(bench.start), num_labels=1, device=str(bench.device))
    peer.max_length = CONTEXT_LENGTH + MAX_LENGTH
    peer.model.to(torch.bfloat16)
    pairs = [
        (" ".join(context), response)
        for context, responses in zip(contexts[:16], candidates[:16], strict=True)
        for response in responses
    ]

    def predict(size: int) -> int:
        return len(peer.predict(pairs, batch_size=size, show_progress_bar=False))

    sizes = {size: rate_of(bench, lambda size=size: predict(size)) for size in (32, 512)}  # type: ignore[misc]
    figures = {"ours": ours, "busy": share, "peer": sizes[32], "peer_512": sizes[512]}
    bench.add("cross-encoder, scoring", "pairs/s", **figures)


def encoding(bench: Bench) -> None:
    """Encode texts with the start's transformer."""
    from sentence_transformers import SentenceTransformer

    shape = vars(read_shape(bench.start)).copy()
    options = {"reduction": "mean", "similarity": "cosine", "context_length": MAX_LENGTH}
    config = parse_config({**shape, "kind": "bi-encoder", **options})
    tokenizer = load_tokenizer(bench.start)
    module = build_module(config, tokenizer.rows)
    fill(module.context, bench.start)
    fill(module.response, bench.start)
    save(bench.folder / "bi", module, tokenizer, max_length=MAX_LENGTH, card="# Bi\n")
    model: Any = load(bench.folder / "bi", device=str(bench.device), precision="bf16")
    texts = [each.response for each in bench.examples]
    texts = texts if bench.device.type == "cuda" else texts[:500]
    began = time.monotonic()
    with watched(bench.device) as busy:
        ours = rate_of(bench, lambda: len(model.encode_responses(texts)))
        share = busy(began, time.monotonic())
    peer = SentenceTransformer(str(bench.start), device=str(bench.device)).bfloat16()
    peer.max_seq_length = MAX_LENGTH
    some = texts[:10_000]

    def encode(size: int) -> int:
        vectors = peer.encode(
            some, batch_size=size, show_progress_bar=False, convert_to_tensor=True
        )
        return len(vectors)

    sizes = {size: rate_of(bench, lambda size=size: encode(size)) for size in (32, 1024)}  # type: ignore[misc]
    bench.add("encoding", "texts/s", ours=ours, busy=share, peer=sizes[32], peer_1024=sizes[1024])


def convert(bench: Bench) -> None:
    """Train ConveRT of the paper's size, quantised as in the paper and not."""
    for batch in (512, 2048):
        for quantised in (True, False):
            settings = [
                "vocabulary.minimum_count=20",
                f"quantization.enabled={str(quantised).lower()}",
                f"stage.0.batch_size={batch}",
                f"stage.0.steps={bench.steps}",
            ]
            name = f"convert-{batch}-{quantised}"
            ours, busy = our_rate(bench, "convert.toml", settings, name)
            kind = "quantised" if quantised else "plain"
            bench.add(f"ConveRT, {kind}, batch {batch}", "pairs/s", ours=ours, busy=busy)


PIECES: dict[str, Callable[[Bench], None]] = {
    "bi-128": lambda bench: bi_encoder(bench, 128),
    "bi-1024": lambda bench: bi_encoder(bench, 1024),
    "cross": cross_encoder,
    "encoding": encoding,
    "convert": convert,
}


if __name__ == "__main__":
    main()
