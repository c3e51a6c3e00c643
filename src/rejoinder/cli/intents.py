"""`rejoinder intents`: intent classifiers on frozen encodings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from rejoinder.cli.arguments import DeviceName, Json, Overwrite, SettingsOption
from rejoinder.cli.models import named_model, report_language
from rejoinder.cli.replies.verbs import read_messages
from rejoinder.cli.shell import Command, emit, guarded
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.folder_kinds import check_replaceable
from rejoinder.progress import counted, note, track

if TYPE_CHECKING:
    from rejoinder.intents.data import IntentData, TrainingTexts

Model = Annotated[
    str,
    typer.Argument(help="A model folder, an id on the Hub, bi-small; minilm, use, e5, st:NAME."),
]
Train = Annotated[
    Path,
    typer.Argument(
        help="Texts and labels: CSV, JSONL, or a folder (seq.in and label; train, valid and test)."
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write.")]
Vectors = Annotated[
    str,
    typer.Option(
        metavar="r|h|both", help=("Vectors of a Rejoinder model: r, a context's h, or both.")
    ),
]
Also = Annotated[
    list[str] | None,
    typer.Option(
        "--with", metavar="ENCODER", help="Another encoder, whose vectors are appended; repeatable."
    ),
]
Preset = Annotated[
    Literal["logistic", "paper", "original"], typer.Option(help="paper: the feed-forward network.")
]
SEPARATOR = "|"  # between the labels of a text that may have several
OutOfScope = Annotated[
    str, typer.Option("--oos", metavar="LABEL", help="The label of texts out of scope.")
]
Shots = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Use only N texts of each intent.")
]
Classifier = Annotated[Path, typer.Argument(help="Folder written by `rejoinder intents train`.")]

intents = typer.Typer(
    name="intents",
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "Intent classifiers on frozen encodings:"
        " train, evaluate, predict, export, fine-tune, split."
    ),
    epilog="Example: rejoinder intents train runs/chats/model intents.csv -o runs/intents",
)


MultiLabel: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--multi-label",
        help="Several intents per text, or none: card|loss, or JSONL lists.",
    ),
]


def train(
    model: Model,
    texts: Train,
    output: Output,
    vectors: Vectors = "r",
    also: Also = None,
    preset: Preset = "logistic",
    settings: SettingsOption = None,
    multi_label: MultiLabel = False,
    oos: OutOfScope = "oos",
    precision: Annotated[
        str, typer.Option(metavar="NAME", help="auto, fp32, bf16 or int8.")
    ] = "auto",
    reject: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.5,
            metavar="SHARE",
            help="Share of in-scope texts to refuse. Default: the best; 0.05 without oos.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    device: DeviceName = "auto",
    as_json: Json = False,
) -> None:
    """Train a classifier on a frozen encoder.

    Texts with the label oos have no intent: they set the threshold for refusing texts as out of
    scope. Without any, everyday messages, other languages and gibberish are used instead.

    Example: rejoinder intents train runs/chats/model intents.csv -o runs/intents
    """
    from rejoinder.encoders.open import open_all
    from rejoinder.intents import classifier, folder, heads
    from rejoinder.intents.reading.texts import read_training

    check_replaceable(output, folder.FOLDER, overwrite=overwrite)
    if multi_label and reject is not None:
        raise InputError(
            f"--reject {reject:g} has no effect with --multi-label, which gives a text no intent if"
            " none reaches 0.5; leave one of them out"
        )
    chosen = heads.parse_settings(preset, settings or ())
    cut = SEPARATOR if multi_label else None
    training = read_training(texts, separator=cut, out_of_scope=oos)
    note_reading(training)
    models = [model, *(also or ())]
    encoder = open_all(models, vectors, precision, device)
    advice = "train on e5 or use (extra languages): rejoinder intents train e5 ..."
    report_language(models, training.train.texts, "texts", advice)
    if not multi_label and not training.has_oos:
        training = training.with_background(is_multilingual=encoder.is_multilingual)
    made = classifier.train_classifier(
        encoder, training, chosen, multi_label=multi_label, reject=reject, track=track
    )
    _note_threshold(made.trained.get("rejection_chosen_by"), training.is_background, reject)
    folder.save_classifier(made, output, overwrite=overwrite)
    rejection = None if made.rejection is None else asdict(made.rejection)
    result = {
        "classifier": str(output),
        "intents": len(made.labels),
        "encoder": encoder.name,
        "rejection": rejection,
    }
    emit(result | made.trained, as_json, _train_text)


def note_reading(*texts: IntentData | TrainingTexts | None) -> None:
    """Print how unclear files were read."""
    for source in texts:
        for line in () if source is None else source.notes:
            note(line)


def _note_threshold(chosen_by: str | None, is_background: bool, reject: float | None) -> None:
    """Print a note if held-out texts did not choose the threshold for refusing."""
    from rejoinder.intents import refusal

    reasons = {
        refusal.BY_OUTSIDE_FEW: (
            "too few texts to measure how many of yours are refused",
            "Give two or more different texts of each intent, 20 in all",
        ),
        refusal.BY_OUTSIDE_MISFIT: (
            "the threshold that fits held-out texts best would refuse more than"
            f" {refusal.MOST_REFUSED:.0%} of your texts, so it is not used",
            "Check the labels: `rejoinder intents evaluate` with --train lists suspect ones",
        ),
    }
    if chosen_by not in reasons:
        return
    reason, advice = reasons[chosen_by]
    outside = "everyday messages" if is_background else "the texts out of scope"
    ignored = "" if reject is None else f"; --reject {reject:g} has no effect"
    note(
        f"{reason}: the threshold refuses {refusal.REFUSED_OUTSIDE:.0%} of {outside}, but at most"
        f" {refusal.REFUSED:.0%} of your texts{ignored}. {advice}"
    )


def evaluate(
    classifier: Classifier,
    test: Annotated[Path, typer.Argument(help="Test texts, as for `train`.")],
    training: Annotated[
        Path | None,
        typer.Option(
            "--train",
            metavar="TRAIN",
            help="Training texts, for suspect labels and the learning curve.",
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--report", metavar="DIR", help="Folder for report and pictures.")
    ] = None,
    oos: OutOfScope = "oos",
    overwrite: Overwrite = False,
    device: DeviceName = "auto",
    as_json: Json = False,
) -> None:
    """Measure a classifier: accuracy with its interval, confused pairs, out-of-scope texts.

    --report writes a report.

    Example: rejoinder intents evaluate runs/intents test.csv --train intents.csv --report report
    """
    from rejoinder.intents import report
    from rejoinder.intents.evaluation.accuracy import to_json
    from rejoinder.intents.folder import load_classifier, read_classifier
    from rejoinder.intents.reading.texts import read_scoped

    if to is not None:
        check_replaceable(to, report.FOLDER, overwrite=overwrite)
    pictures = to is not None and _can_draw(to)
    cut = SEPARATOR if read_classifier(classifier)["multi_label"] else None
    inside, oos_texts = read_scoped(test, "test", separator=cut, out_of_scope=oos)
    learned = (
        None
        if training is None
        else read_scoped(training, "train", separator=cut, out_of_scope=oos)[0]
    )
    note_reading(inside, learned)
    opened = load_classifier(classifier, _models(), device)
    built = report.build_report(opened, inside, oos_texts, learned, track=track)
    if to is not None:
        report.write_report(built, opened.labels, to, pictures=pictures, overwrite=overwrite)
    result = {"classifier": str(classifier), "test": str(test), **to_json(built)}
    emit(result, as_json, lambda _: built.markdown().rstrip("\n"))


def _models() -> list[str]:
    """Return the encoders in the environment, with commas between them."""
    return [name for name in (named_model() or "").split(",") if name]


def _can_draw(folder: Path) -> bool:
    """Return whether a report can have pictures; print a note if it cannot."""
    from rejoinder.intents import report

    try:
        report.check_plots()
    except MissingExtraError as error:
        note(f"no pictures in {folder}: {error}")
        return False
    return True


def predict(
    classifier: Classifier,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT...", help="Texts. Default: standard input.")
    ] = None,
    top: Annotated[
        int, typer.Option(min=1, metavar="N", help="Show the N most probable intents.")
    ] = 3,
    as_json: Json = False,
) -> None:
    """Print the intents of texts.

    Example: rejoinder intents predict runs/intents "where is my card?"
    """
    from rejoinder.intents.folder import load_classifier

    opened = load_classifier(classifier, _models())
    messages = list(texts or read_messages(sys.stdin.buffer))
    if not messages:
        raise InputError("no text; give one or more, or lines on standard input")
    rows = []
    for text, prediction in zip(messages, opened.predict(messages), strict=True):
        best = [
            {"label": name, "probability": round(chance, 6)}
            for name, chance in prediction.ranking[:top]
        ]
        rows.append(
            {
                "text": text,
                "labels": list(prediction.labels),
                "out_of_scope": prediction.out_of_scope,
                "ranking": best,
            }
        )
    emit({"predictions": rows}, as_json, _predict_text)


def export(
    classifier: Classifier,
    output: Output,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a classifier and its model as ONNX files, for machines without PyTorch.

    rejoinder.runtime.OnnxIntents opens them.

    Example: rejoinder intents export runs/intents -o intents-onnx
    """
    from rejoinder.intents.export import export_classifier

    result = export_classifier(classifier, output, _models(), overwrite=overwrite)
    labels = counted(result["intents"], "intent")
    lines = f"{labels}, {result['bytes'] / 1e6:.1f} MB\nfolder: {result['path']}"
    emit({"classifier": str(classifier), **result}, as_json, lambda _: lines)


def fine_tune(
    model: Annotated[
        str, typer.Argument(help="A model folder, or its id on the Hugging Face Hub.")
    ],
    texts: Train,
    output: Output,
    settings: SettingsOption = None,
    shots: Shots = None,
    oos: OutOfScope = "oos",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Fine-tune the encoder itself on intents, as a new model folder.

    Then `train` a classifier on it.

    Example: rejoinder intents fine-tune runs/chats/model intents.csv -o runs/tuned
    """
    from rejoinder.intents import fine_tuning, heads
    from rejoinder.intents.reading.texts import read_training

    chosen = heads.change_settings(fine_tuning.FineTuning(), settings or ())
    learned = read_training(texts, out_of_scope=oos, shots=shots).train
    note_reading(learned)
    with track("Fine-tuning", chosen.steps, "steps") as advance:
        result = fine_tuning.fine_tune(
            model, learned, output, chosen, advance=advance, overwrite=overwrite
        )
    emit(
        asdict(result),
        as_json,
        lambda r: f"loss {r['first_loss']:.3f} to {r['last_loss']:.3f}\nmodel: {r['model']}",
    )


def split(
    texts: Train,
    output: Output,
    shares: Annotated[
        str, typer.Option(metavar="T,V,T", help="Shares of train, valid, test.")
    ] = "0.8,0.1,0.1",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Cut texts at random into train.csv, valid.csv and test.csv, with like shares of each intent.

    Of a folder or file that has parts, the texts of all parts are cut anew.

    Example: rejoinder intents split intents.csv -o data/intents
    """
    from rejoinder.intents import parts
    from rejoinder.intents.reading.texts import read_all_parts

    try:
        numbers = [float(share) for share in shares.split(",")]
    except ValueError:
        raise InputError(f"--shares {shares}: give three numbers, as 0.8,0.1,0.1") from None
    labelled = read_all_parts(texts)
    note_reading(labelled)
    made = parts.cut(labelled, numbers)
    parts.write_parts(made, output, overwrite=overwrite)
    for name, share, part in zip(parts.NAMES, numbers, made, strict=True):
        if share > 0 and not len(part):
            note(
                f"no {name}.csv: {counted(len(labelled), 'text')} of"
                f" {counted(len(labelled.names), 'intent')} are too few for a share of {share:g}"
            )
    result = {"folder": str(output), **dict(zip(parts.NAMES, map(len, made), strict=True))}
    emit(result, as_json, lambda r: f"{r['train']:,}, {r['valid']:,}, {r['test']:,}: {r['folder']}")


def _train_text(result: Mapping[str, Any]) -> str:
    from rejoinder.intents.refusal import refused_words

    seconds = (
        f"encoding {result['encoding_seconds']:.1f} s, training {result['training_seconds']:.1f} s"
    )
    texts = counted(result["texts"], "text")
    lines = [f"{texts} of {counted(result['intents'], 'intent')}; {seconds}"]
    if result["held_out_accuracy"] is not None:
        epochs = counted(result["epochs"], "epoch")
        lines.append(f"held-out accuracy: {result['held_out_accuracy']:.1%} ({epochs})")
    if result["rejection"] is not None:
        refused = refused_words(**result["rejection"], digits=4)
        lines.append(f"out of scope: {' '.join(refused)}")
    return "\n".join([*lines, f"classifier: {result['classifier']}"])


def _predict_text(result: Mapping[str, Any]) -> str:
    blocks = []
    for row in result["predictions"]:
        labels = "out of scope" if row["out_of_scope"] else ", ".join(row["labels"]) or "none"
        ranking = ", ".join(
            f"{intent['label']} {intent['probability']:.3f}" for intent in row["ranking"]
        )
        blocks.append(f"{row['text']}\n    {labels}    ({ranking})")
    return "\n".join(blocks)


VERBS: tuple[Callable[..., None], ...] = (
    train,
    evaluate,
    predict,
    export,
    fine_tune,
    split,
)
COMMANDS = {verb.__name__.replace("_", "-"): verb for verb in VERBS}
for _name, _command in COMMANDS.items():
    intents.command(_name, cls=Command)(guarded(_command))
