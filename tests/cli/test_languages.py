"""The note of a build whose model does not read the replies' language."""

import json

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
