"""The note of a build, or a training of intents, whose model does not read the texts' language."""

import json

import pytest

SPANISH = [
    "Puedes seguir tu paquete con el número que te enviamos.",
    "La tienda abre de lunes a sábado, de diez a ocho.",
]


def write_faq(path, replies):
    lines = (json.dumps({"answer": each, "question": "?"}, ensure_ascii=False) for each in replies)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_build_notes_that_the_model_reads_english_only(tmp_path, command):
    spanish = write_faq(tmp_path / "es.jsonl", SPANISH)
    english = write_faq(tmp_path / "en.jsonl", ["Follow your parcel.", "We open at ten."])
    note = "Most replies are not English, which is all that bi-small reads; index them with e5"
    assert note in command("index", "build", "bi-small", spanish, "-o", tmp_path / "a").err
    assert note not in command("index", "build", "bi-small", english, "-o", tmp_path / "b").err


GERMAN = [("Meine Karte ist weg", "verloren"), ("Wo ist meine Karte?", "verloren"), ("Wie ist der Kurs?", "kurs")]
ENGLISH = [("my card is lost", "lost"), ("where is my card?", "lost"), ("what is the exchange rate?", "rate")]


@pytest.mark.parametrize(("rows", "is_noted"), [(GERMAN, True), (ENGLISH, False)])
def test_a_training_of_intents_notes_that_the_model_reads_english_only(tmp_path, command, rows, is_noted):
    path = tmp_path / "intents.csv"
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows), encoding="utf-8")
    note = "Most texts are not English, which is all that bi-small reads; train on e5 or use (extra languages)"
    ended = command("intents", "train", "bi-small", path, "-o", tmp_path / "made")
    assert ended.code == 0, ended.err
    assert (note in ended.err) is is_noted
