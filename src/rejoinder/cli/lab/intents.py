"""`rejoinder lab grid`, `few-shot` and `bert`: intent classifiers as the papers measure them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rejoinder.cli.arguments import DeviceName, Json, Overwrite, SettingsOption, number_or_all
from rejoinder.cli.intents import (
    Also,
    Model,
    OutOfScope,
    Output,
    Preset,
    Train,
    Vectors,
    note_reading,
)
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.folder_kinds import check_replaceable, check_shared
from rejoinder.progress import counted, note, track

if TYPE_CHECKING:
    from rejoinder.intents.data import IntentData

Sizes = Annotated[
    list[int] | None,
    typer.Option(
        parser=number_or_all(1),
        metavar="N|all",
        help="Texts per intent; repeatable. Default: 5, 10, 30, all.",
    ),
]

DEFAULT_SIZES = (5, 10, 30, None)

Test = Annotated[
    Path | None, typer.Option(metavar="PATH", help="Test texts, if TEXTS has no split test.")
]


def grid(
    model: Model,
    texts: Train,
    output: Output,
    vectors: Vectors = "r",
    also: Also = None,
    oos: OutOfScope = "oos",
    device: DeviceName = "auto",
    as_json: Json = False,
) -> None:
    """Train the paper's whole grid of feed-forward networks; keep the best by validation.

    An interrupted grid continues. DIR/grid.jsonl has a line for each setting, DIR/grid.md the
    table, DIR/classifier the best.

    Example: rejoinder lab grid runs/chats/model intents.csv -o runs/grid
    """
    from rejoinder.encoders.open import open_all
    from rejoinder.intents import classifier, fitting, folder, heads
    from rejoinder.intents.reading.texts import read_training
    from rejoinder.lab.grid import grid_table, paper_grid, run_grid

    check_shared(output, "a grid's folder", ("grid.jsonl", "grid.md", "classifier"))
    check_replaceable(output / "classifier", folder.FOLDER, overwrite=True)
    training = read_training(texts, out_of_scope=oos)
    note_reading(training)
    encoder = open_all([model, *(also or ())], vectors, device=device)
    names = training.train.names
    with track("Encoding", len(training.train), "texts") as advance:
        learned = classifier.encode_data(encoder, training.train, names, advance=advance)
    if training.valid is None:
        learned, checked = fitting.split_validation(learned, heads.FeedForward().held_out, seed=0)
    else:
        checked = classifier.encode_data(encoder, training.valid, names)
    with track("Grid", len(settings := list(paper_grid())), "settings") as advance:
        rows = run_grid(settings, learned, checked, output / "grid.jsonl", advance=advance)
    text = grid_table(rows)
    with atomic_file(output / "grid.md") as part:
        part.write_text(text, encoding="utf-8")
    best = classifier.train_head(encoder, names, learned, rows[0].settings, checked)
    folder.save_classifier(best, output / "classifier", overwrite=True)
    result = {"classifier": str(output / "classifier"), "rows": list(map(asdict, rows))}
    emit(result, as_json, lambda _: text.rstrip("\n"))


def few_shot(
    model: Model,
    texts: Train,
    test: Test = None,
    shots: Sizes = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Random draws per size.")
    ] = 5,
    vectors: Vectors = "r",
    also: Also = None,
    preset: Preset = "logistic",
    settings: SettingsOption = None,
    oos: OutOfScope = "oos",
    device: DeviceName = "auto",
    as_json: Json = False,
) -> None:
    """Measure accuracy with few texts per intent, over several draws.

    The mean and its 95 % interval are over draws and test texts.

    Example: rejoinder lab few-shot runs/chats/model train.csv --test test.csv --shots 5 --shots
    all
    """
    from rejoinder.encoders.open import open_all
    from rejoinder.evaluation.report import percent
    from rejoinder.intents import classifier, heads, report
    from rejoinder.intents.evaluation import learning_curves
    from rejoinder.intents.evaluation.accuracy import to_json
    from rejoinder.intents.reading.texts import read_scoped

    chosen = heads.parse_settings(preset, settings or ())
    inside, _ = read_scoped(texts, "train", out_of_scope=oos)
    others, _ = read_scoped(test or texts, "test", out_of_scope=oos)
    note_reading(inside, others if test else None)
    sizes = _sizes(inside, shots)
    encoder = open_all([model, *(also or ())], vectors, device=device)
    names = inside.names
    with track("Encoding", total=len(inside) + len(others), unit="texts") as advance:
        learned = classifier.encode_data(encoder, inside, names, advance=advance)
        tested = classifier.encode_data(encoder, others, names, advance=advance)
    trainings = learning_curves.count_trainings(chosen, sizes, range(seeds))
    with track("Training", total=trainings, unit="classifiers") as advance:
        rows = [
            learning_curves.few_shot(chosen, learned, tested, n, range(seeds), advance)
            for n in sizes
        ]
    head = ("shots", "accuracy, %", "trainings", "texts", "seconds")
    lines = [
        (r.shots or "all", percent(r.accuracy), r.trainings, r.texts, f"{r.seconds:.2f}")
        for r in rows
    ]
    result = {"encoder": encoder.name, "rows": [to_json(row) for row in rows]}
    emit(result, as_json, lambda _: report.table(head, lines).rstrip("\n"))


def _sizes(texts: IntentData, shots: list[int] | None) -> list[int | None]:
    """Return the sizes to measure; of the default ones those that every intent has texts for."""
    from rejoinder.intents.data import check_shots

    sizes: list[int | None] = []
    for size in shots or DEFAULT_SIZES:
        try:
            if size is not None:
                check_shots(texts, size)
        except InputError as error:
            if shots:
                raise InputError(f"--shots {size}: {error}") from error
            note(f"no row {size}: {error}")
        else:
            sizes.append(size)
    return sizes


def bert(
    checkpoint: Annotated[
        str, typer.Argument(help="A BERT: a folder as transformers writes it, or an id on the Hub.")
    ],
    texts: Train,
    output: Output,
    test: Test = None,
    settings: SettingsOption = None,
    oos: OutOfScope = "oos",
    overwrite: Overwrite = False,
    device: DeviceName = "auto",
    as_json: Json = False,
) -> None:
    """Fine-tune a whole BERT with a classifier on [CLS], as ConveRT's paper does with BERT-LARGE.

    DIR becomes a model of transformers; accuracy and time of the training are printed.

    Example: rejoinder lab bert google-bert/bert-large-uncased data/intents -o runs/bert-intents
    """
    from rejoinder.evaluation.report import percent
    from rejoinder.intents import heads
    from rejoinder.intents.reading.texts import read_scoped, read_training
    from rejoinder.lab.bert_intents import FOLDER, BertSettings, fine_tune_bert

    check_replaceable(output, FOLDER, overwrite=overwrite)
    chosen = heads.change_settings(BertSettings(), settings or ())
    learned = read_training(texts, out_of_scope=oos)
    tested, _ = read_scoped(test or texts, "test", out_of_scope=oos)
    note_reading(learned, tested if test else None)
    tuned = fine_tune_bert(
        checkpoint,
        learned.train,
        learned.valid,
        tested,
        output,
        chosen,
        device=device,
        track=track,
        overwrite=overwrite,
    )
    lines = [
        f"accuracy {percent(tuned.accuracy)} % on {counted(tuned.texts, 'text')}"
        f" of {counted(tuned.intents, 'intent')}",
        f"epoch {tuned.epoch}, {tuned.seconds:.1f} s",
        f"model: {output}",
    ]
    result = {"model": str(output), "test": str(test or texts), **asdict(tuned)}
    emit(result, as_json, lambda _: "\n".join(lines))
