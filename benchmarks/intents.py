"""Intent classifiers on frozen encodings, beside their peers, with costs.

The data are BANKING77, CLINC150 and HWU64.

    REJOINDER_DATA=DIR python benchmarks/intents.py runs/small/model -o intents

writes intents/intents.md and intents/intents.json. The data is DIR/eval, in the published formats.
Sections:

- table: accuracy with 5 and 10 texts of each intent (several draws, and the fixed files) and with
  all;
- classifiers: logistic regression, the paper's net and the original setting on the same vectors;
- out-of-scope: CLINC150, the score and its threshold chosen on validation texts;
- fine-tune: the encoder fine-tuned on 10 texts of each intent, beside the frozen one;
- speed: training on all and on 10 texts of each intent of BANKING77, encoding included, and one
  prediction;
- cost: the first of these beside fine-tuning the whole of MiniLM, from start to end, with the
  accuracy of both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from common import cpu_model
from intents_peers import fine_tune_whole, tfidf_few_shot
from rejoinder.arrays import unit_rows
from rejoinder.encoders.open import Vectors, open_texts
from rejoinder.encoders.sentence import SentenceEncoder
from rejoinder.evaluation.report import percent
from rejoinder.files import atomic_file
from rejoinder.intents.classifier import encode_data, train_classifier, train_head
from rejoinder.intents.data import IntentData, TrainingTexts
from rejoinder.intents.evaluation.accuracy import evaluate, to_json
from rejoinder.intents.evaluation.learning_curves import FewShot, crossed_interval, few_shot
from rejoinder.intents.fine_tuning import FineTuning, fine_tune
from rejoinder.intents.heads import Encoded, Logistic, change_settings, parse_settings
from rejoinder.intents.reading.texts import read_intents, read_scoped, read_training
from rejoinder.intents.report import table
from rejoinder.intents.sampling import draw
from rejoinder.progress import track

SECTIONS = ("table", "classifiers", "out-of-scope", "fine-tune", "speed", "cost")
SETS = {"BANKING77": "banking77", "CLINC150": "clinc150/data_full.json", "HWU64": "hwu64"}
SHOTS: tuple[int | None, ...] = (5, 10, None)
PUBLISHED = {
    "ConveRT": {"BANKING77": (75.3, 83.3), "CLINC150": (89.2, 92.6), "HWU64": (77.0, 82.7)},
    "USE": {"BANKING77": (76.3, 84.2), "CLINC150": (87.8, 90.9), "HWU64": (77.8, 83.8)},
    "USE+ConveRT": {"BANKING77": (77.8, 85.2), "CLINC150": (90.5, 93.3), "HWU64": (80.0, 85.8)},
    "RoBERTa fine-tuned": {
        "BANKING77": (74.0, 84.3),
        "CLINC150": (88.0, 91.6),
        "HWU64": (75.6, 82.9),
    },
}
"""Published accuracy at 5 and 10 texts of each intent, in %."""
SINGLES = 200


@dataclass
class Run:
    """What all sections share."""

    data: Path
    encoders: dict[str, SentenceEncoder]
    model: str
    seeds: int
    joined: dict[str, tuple[str, ...]] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    cache: dict[tuple[str, str, str], tuple[Encoded, float]] = field(default_factory=dict)

    def texts(self, name: str, part: str) -> IntentData:
        """A part of a set: train, test, or one of the fixed files train_5, train_10, test-fixed."""
        if part in ("train", "test"):
            return read_scoped(self.data / SETS[name], part)[0]
        return read_intents(self.data / "few_shot" / name / part.removesuffix("-fixed"))

    def encoded(self, encoder: str, name: str, part: str) -> tuple[Encoded, float]:
        """The same as vectors, and the seconds that took; once.

        Joined encoders put together what their parts gave.
        """
        key = (encoder, name, part)
        if key not in self.cache and encoder in self.joined:
            pieces = [self.encoded(single, name, part) for single in self.joined[encoder]]
            vectors = unit_rows(np.hstack([piece.vectors for piece, _ in pieces]))
            self.cache[key] = (
                replace(pieces[0][0], vectors=vectors),
                sum(seconds for _, seconds in pieces),
            )
        if key not in self.cache:
            data = self.texts(name, part)
            names = self.texts(name, "train_5" if part not in ("train", "test") else "train").names
            start = time.perf_counter()
            found = encode_data(self.encoders[encoder], data, names)
            self.cache[key] = found, time.perf_counter() - start
        return self.cache[key]


def main() -> None:
    """Run the sections and write both files after each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "model", nargs="*", help="model folders; the first one is what the other sections are about"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("intents"))
    parser.add_argument("--sections", default=",".join(SECTIONS), help="comma-separated")
    parser.add_argument(
        "--peers", default="tfidf,minilm,use,minilm+MODEL,use+MODEL", help="comma-separated"
    )
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated")
    parser.add_argument("--vectors", choices=get_args(Vectors), default="r", help="of our models")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4, help="of MiniLM's fine-tuning")
    parser.add_argument(
        "--cost-texts", type=int, help="train on so many texts of each intent only: a small trial"
    )
    parser.add_argument("--fine-tune-set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    if "REJOINDER_DATA" not in os.environ:
        sys.exit(
            "skipped: set REJOINDER_DATA to the folder with the intent sets (see the docstring)"
        )
    torch.set_num_threads(options.threads)
    run = _open(options)
    run.figures = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "threads": options.threads,
        "seeds": options.seeds,
        "models": options.model,
        "vectors": options.vectors,
    }
    chosen: Sequence[str] = [name for name in SECTIONS if name in options.sections.split(",")]
    parts = {
        "table": lambda: _table(run, options.peers.split(","), options.sets.split(",")),
        "classifiers": lambda: _classifiers(run),
        "out-of-scope": lambda: _out_of_scope(run),
        "fine-tune": lambda: _fine_tune(run, options.fine_tune_set),
        "speed": lambda: _speed(run),
        "cost": lambda: _cost(run, options.epochs, options.cost_texts),
    }
    texts = [
        f"# Intents\n\n{run.figures['cpu']}, {options.threads} threads, {run.figures['date']}\n"
    ]
    for name in chosen:
        text = parts[name]()
        print(text, flush=True)
        texts.append(text)
        _write(options.output, texts, run.figures)


def _open(options: argparse.Namespace) -> Run:
    """Open every encoder that a section needs."""
    wanted = {name for peer in options.peers.split(",") for name in peer.split("+")} - {
        "tfidf",
        "MODEL",
    }
    encoders: dict[str, SentenceEncoder] = {
        place: open_texts(place, options.vectors) for place in options.model
    }
    encoders |= {name: open_texts(name) for name in sorted(wanted)}
    joined: dict[str, tuple[str, ...]] = {}
    for peer in options.peers.split(","):
        if "+" in peer and options.model:
            names = tuple(options.model[0] if name == "MODEL" else name for name in peer.split("+"))
            joined[" + ".join(names)] = names
    model = options.model[0] if options.model else "minilm"
    return Run(Path(os.environ["REJOINDER_DATA"]) / "eval", encoders, model, options.seeds, joined)


def _table(run: Run, peers: Sequence[str], sets: Sequence[str]) -> str:
    text = "## Accuracy, % [95 % interval over draws and test texts]\n\n"
    rows: list[dict[str, Any]] = []
    run.figures["table"] = rows
    for name in sets:
        lines = []
        for encoder in [*(["tfidf"] if "tfidf" in peers else []), *run.encoders, *run.joined]:
            row = _row(run, encoder, name)
            rows.append({"set": name, "encoder": encoder, **row})
            print(
                json.dumps({"set": name, "encoder": encoder, **row["cells"]}),
                file=sys.stderr,
                flush=True,
            )
            lines.append(
                (encoder, *row["cells"].values(), f"{row['encoding_seconds']:.1f}", *row["seconds"])
            )
        for paper, values in PUBLISHED.items():
            lines.append(
                (
                    f"published: {paper}",
                    "",
                    "",
                    "",
                    *(f"{v:.1f}" for v in values[name]),
                    "",
                    "",
                    "",
                    "",
                )
            )
        head = (
            "encoder",
            f"5 ({run.seeds} draws)",
            "10",
            "all",
            "5 (fixed file)",
            "10 (fixed file)",
            "encoding all, s",
            "training 5, s",
            "10, s",
            "all, s",
        )
        text += f"### {name}\n\n{table(head, lines)}\n"
    return text


def _row(run: Run, encoder: str, name: str) -> dict[str, Any]:
    """One encoder on one set."""
    found, fixed = {}, {}
    encoding = 0.0
    for shots in SHOTS:
        found[shots] = _few(run, encoder, name, shots)
    for shots in (5, 10):
        fixed[shots] = _fixed(run, encoder, name, shots)
    if encoder != "tfidf":
        encoding = run.encoded(encoder, name, "train")[1]
    each = {
        "5": found[5],
        "10": found[10],
        "all": found[None],
        "5 fixed": fixed[5],
        "10 fixed": fixed[10],
    }
    return {
        "cells": {key: percent(row.accuracy) for key, row in each.items()},
        "figures": {key: to_json(row) for key, row in each.items()},
        "encoding_seconds": encoding,
        "seconds": [f"{found[shots].seconds:.2f}" for shots in SHOTS],
    }


def _few(run: Run, encoder: str, name: str, shots: int | None) -> FewShot:
    if encoder == "tfidf":
        return tfidf_few_shot(
            run.texts(name, "train"), run.texts(name, "test"), shots, range(run.seeds)
        )
    train, test = (run.encoded(encoder, name, part)[0] for part in ("train", "test"))
    return few_shot(Logistic(), train, test, shots=shots, seeds=range(run.seeds))


def _fixed(run: Run, encoder: str, name: str, shots: int) -> FewShot:
    if encoder == "tfidf":
        return tfidf_few_shot(
            run.texts(name, f"train_{shots}"), run.texts(name, "test-fixed"), None, range(1)
        )
    train, test = (run.encoded(encoder, name, part)[0] for part in (f"train_{shots}", "test-fixed"))
    return few_shot(Logistic(), train, test, shots=None, seeds=range(1))


def _classifiers(run: Run) -> str:
    """Logistic regression beside the nets, on draws of 10 texts of each intent."""
    lines, rows = [], []
    for name in SETS:
        train, test = (run.encoded(run.model, name, part)[0] for part in ("train", "test"))
        for preset in ("logistic", "paper", "original"):
            found = few_shot(
                parse_settings(preset), train, test, shots=10, seeds=range(min(run.seeds, 3))
            )
            rows.append({"set": name, "preset": preset, **to_json(found)})
            lines.append((name, preset, percent(found.accuracy), f"{found.seconds:.2f}"))
    run.figures["classifiers"] = rows
    head = ("set", "classifier", "accuracy at 10, %", "training, s")
    return f"## Classifiers on the same vectors ({run.model})\n\n{table(head, lines)}"


def _out_of_scope(run: Run) -> str:
    """CLINC150 with all training texts; score and threshold chosen on its validation texts."""
    place = run.data / SETS["CLINC150"]
    texts = read_training(place)
    inside, oos_texts = read_scoped(place, "test")
    lines, rows = [], []
    for name in (
        run.model,
        *(peer for peer in ("minilm", "use") if peer in run.encoders and peer != run.model),
    ):
        found = evaluate(
            train_classifier(run.encoders[name], texts, track=track), inside, oos_texts
        ).out_of_scope
        assert found is not None
        rows.append({"encoder": name, **to_json(found)})
        shares = (
            found.in_scope_accuracy_unrefused,
            found.in_scope_accuracy,
            found.recall,
            found.auroc,
        )
        lines.append((name, found.score, *(f"{100 * share:.1f}" for share in shares)))
    run.figures["out_of_scope"] = rows
    head = (
        "encoder",
        "score",
        "accuracy, nothing refused",
        "in-scope accuracy",
        "out-of-scope recall",
        "AUROC",
    )
    return f"## Out of scope: CLINC150, %\n\n{table(head, lines)}"


def _fine_tune(run: Run, changes: Sequence[str]) -> str:
    """10 texts of each intent of BANKING77, frozen and fine-tuned, the same draws."""
    train, test = run.texts("BANKING77", "train"), run.texts("BANKING77", "test")
    classes = run.encoded(run.model, "BANKING77", "train")[0].classes
    right: dict[str, list[Any]] = {"frozen": [], "fine-tuned": []}
    seconds = []
    for seed in range(min(run.seeds, 3)):
        part = train.rows(draw(classes, 10, seed))
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            settings = change_settings(FineTuning(), changes)
            fine_tune(run.model, part, Path(folder) / "tuned", settings=settings, seed=seed)
            seconds.append(time.perf_counter() - start)
            for name, place in (("frozen", run.model), ("fine-tuned", f"{folder}/tuned")):
                made = train_classifier(open_texts(place), TrainingTexts(part))
                tested = encode_data(made.encoder, test, made.labels)
                right[name].append(
                    made.head.logits(tested.vectors).argmax(axis=1) == tested.classes
                )
    found = {name: crossed_interval(np.array(rows)) for name, rows in right.items()}
    run.figures["fine_tuning"] = {name: asdict(each) for name, each in found.items()} | {
        "seconds": seconds
    }
    lines = [(name, percent(each)) for name, each in found.items()]
    return (
        f"## Fine-tuning the encoder: BANKING77, 10 texts of each intent, {len(seconds)} draws\n\n"
        f"{table(('encoder', 'accuracy, %'), lines)}\n"
        f"Fine-tuning took {statistics.mean(seconds):.0f} s a draw.\n"
    )


def _speed(run: Run) -> str:
    """Training, encoding included, and one prediction; medians."""
    train = run.texts("BANKING77", "train")
    encoder = run.encoders[run.model]
    classes = run.encoded(run.model, "BANKING77", "train")[0].classes
    few = train.rows(draw(classes, 10, 0))
    whole = [_both(lambda: train_classifier(encoder, TrainingTexts(train))) for _ in range(3)]
    ten = [_both(lambda: train_classifier(encoder, TrainingTexts(few))) for _ in range(3)]
    made = train_head(
        encoder, train.names, run.encoded(run.model, "BANKING77", "train")[0], Logistic()
    )
    made.predict(["warm up"])
    singles = [_both(lambda text=text: made.predict([text])) for text in train.texts[:SINGLES]]  # type: ignore[misc]
    measured = {
        "training on all 10,003 texts, s": np.median(whole, axis=0),
        "training on 10 of each intent, s": np.median(ten, axis=0),
        "one prediction, ms": 1000 * np.median(singles, axis=0),
    }
    run.figures["speed"] = {
        name: {"wall": float(w), "processor": float(p)} for name, (w, p) in measured.items()
    }
    lines = [
        (name, f"{wall:.2f}", f"{processor:.2f}") for name, (wall, processor) in measured.items()
    ]
    return (
        f"## Speed: BANKING77, {run.model}, encoding included, medians\n\n"
        f"{table(('what', 'wall clock', 'processor time, all threads'), lines)}"
    )


def _cost(run: Run, epochs: int, shots: int | None) -> str:
    """Measure ours, then MiniLM's fine-tuning to its end, then ours again.

    Figures are seconds of training and accuracy on the test texts.
    """
    train, test = run.texts("BANKING77", "train"), run.texts("BANKING77", "test")
    if shots is not None:
        train = train.rows(draw(run.encoded(run.model, "BANKING77", "train")[0].classes, shots, 0))
    texts = TrainingTexts(train)
    ours = [_seconds(lambda: train_classifier(run.encoders[run.model], texts))]
    theirs = fine_tune_whole(train, test, epochs)
    ours.append(_seconds(lambda: train_classifier(run.encoders[run.model], texts)))
    made, mean = train_classifier(run.encoders[run.model], texts), statistics.mean(ours)
    tested = encode_data(made.encoder, test, made.labels)
    right = float((made.head.logits(tested.vectors).argmax(axis=1) == tested.classes).mean())
    run.figures["cost"] = {
        "texts": len(train),
        "ours_seconds": ours,
        "ours_accuracy": right,
        "minilm": [{"seconds": s, "accuracy": a} for s, a in theirs],
        "ratio": theirs[-1][0] / mean,
    }
    lines = [(f"{run.model}, frozen", f"{mean:.2f}", f"{100 * right:.1f}", "1")]
    for number, (seconds, accuracy) in enumerate(theirs, 1):
        name = f"MiniLM fine-tuned as a whole, after epoch {number} of {epochs}"
        lines.append((name, f"{seconds:.0f}", f"{100 * accuracy:.1f}", f"{seconds / mean:.0f}"))
    head = ("what", "training, encoding included, s", "accuracy on the test texts, %", "times ours")
    return f"## Cost: BANKING77, {len(train):,} training texts\n\n{table(head, lines)}"


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _both(work: Callable[[], object]) -> tuple[float, float]:
    """Return seconds by the wall clock and of processor time.

    Other programs on the machine change the latter less.
    """
    start, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - used


def _write(folder: Path, texts: Sequence[str], figures: dict[str, Any]) -> None:
    with atomic_file(folder / "intents.md") as part:
        part.write_text("\n".join(texts), encoding="utf-8")
    with atomic_file(folder / "intents.json") as part:
        part.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
