"""Reading texts and labels in every form that is promised, and what is said of wrong files."""

import gzip
import json

import pytest

from rejoinder.errors import InputError
from tests.corpora.readers.test_refused_bots import LEX_BOT
from rejoinder.intents.data import IntentData
from rejoinder.intents.reading.texts import has_part, read_intents, read_scoped, read_training

TWO = IntentData(("hello there", "a, b"), (("greet",), ("letters",)))


def parallel(folder, texts="hello there\na, b\n", labels="greet\nletters\n"):
    folder.mkdir(parents=True)
    (folder / "seq.in").write_text(texts)
    (folder / "label").write_text(labels)
    return folder


@pytest.mark.parametrize("header", ["text,category\n", "TEXT,Label\n", "", "id,intent,text\n"])
def test_csv_with_and_without_a_header(tmp_path, header):
    rows = (
        '1,greet,hello there\n2,letters,"a, b"\n'
        if "id" in header
        else 'hello there,greet\n"a, b",letters\n'
    )
    (tmp_path / "a.csv").write_text(header + rows)
    assert read_intents(tmp_path / "a.csv") == TWO


def test_jsonl_also_compressed(tmp_path):
    lines = (
        '{"text": "hello there", "intent": "greet"}\n\n{"text": "a, b", "labels": ["letters"]}\n'
    )
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    assert read_intents(tmp_path / "a.jsonl") == read_intents(tmp_path / "b.jsonl.gz") == TWO


def test_parallel_files_and_a_folder_of_parts(tmp_path):
    folder = parallel(tmp_path / "set" / "train").parent
    parallel(folder / "test", "good bye\n", "leave\n")
    assert (
        read_intents(folder / "train")
        == read_intents(folder)
        == read_intents(folder, "train")
        == TWO
    )
    assert read_intents(folder, "test").texts == ("good bye",)
    assert has_part(folder, "test")
    assert not has_part(folder, "valid")
    assert not has_part(folder / "train", "train")
    with pytest.raises(InputError, match=r"no part valid .* it holds test, train"):
        read_intents(folder, "valid")
    (tmp_path / "train.csv").write_text("text,label\nx,one\n")
    (tmp_path / "val.jsonl").write_text('{"text": "y", "label": "two"}\n')
    assert read_intents(tmp_path, "valid").labels == (("two",),)
    assert has_part(tmp_path, "valid")


def test_parts_of_a_folder_may_be_compressed(tmp_path):
    (tmp_path / "train.csv").write_text("text,label\nx,one\ny,two\n")
    (tmp_path / "valid.csv.gz").write_bytes(gzip.compress(b"text,label\nz,two\n"))
    (tmp_path / "test.ndjson.gz").write_bytes(gzip.compress(b'{"text": "w", "label": "two"}\n'))
    assert read_training(tmp_path).valid.texts == ("z",)
    assert read_intents(tmp_path, "test").texts == ("w",)
    (tmp_path / "valid.csv.gz").unlink()
    (tmp_path / "valid.json").write_text('{"valid": [["v", "one"]]}')
    assert read_training(tmp_path).valid.texts == ("v",)


def test_one_json_object_of_parts_as_clinc150_has_it(tmp_path):
    path = tmp_path / "data_full.json"
    content = {
        "oos_val": [["set a", "oos"]],
        "val": [["b", "two"]],
        "train": [["c", "three"]],
        "oos_train": [],
    }
    path.write_text(json.dumps(content))
    assert read_intents(path, "valid") == IntentData(("b", "set a"), (("two",), ("oos",)))
    assert read_intents(path, "train").texts == ("c",)
    assert has_part(path, "valid")
    assert not has_part(path, "test")
    with pytest.raises(InputError, match="no part test"):
        read_intents(path, "test")


def test_texts_out_of_scope_are_set_apart(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na,x\nb,oos\nc,y\n")
    assert read_scoped(tmp_path / "a.csv", "train") == (
        IntentData(("a", "c"), (("x",), ("y",))),
        ("b",),
    )
    (tmp_path / "a.csv").write_text("text,label\nb,none\n")
    with pytest.raises(InputError, match="no text in scope; all have the label none"):
        read_scoped(tmp_path / "a.csv", "train", out_of_scope="none")


def test_several_labels(tmp_path):
    (tmp_path / "a.csv").write_text("text,labels\nbook and pay,book|pay\nnothing,\nonce,pay|pay\n")
    (tmp_path / "b.jsonl").write_text(
        '{"text": "book", "labels": ["book", "pay"]}\n{"text": "-", "labels": []}\n'
    )
    assert read_intents(tmp_path / "a.csv", separator="|").labels == (("book", "pay"), (), ("pay",))
    assert read_intents(tmp_path / "b.jsonl", separator="|").labels == (("book", "pay"), ())
    with pytest.raises(
        InputError, match=r"b.jsonl:1: 2 labels; give one \(`rejoinder intents train --multi-label`"
    ):
        read_intents(tmp_path / "b.jsonl")


def test_a_list_of_labels_goes_before_a_single_one_where_there_may_be_several(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"text": "book", "label": "book", "labels": ["book", "pay"]}\n{"text": "ask", "label": "ask", "labels": null}\n'
    )
    (tmp_path / "a.csv").write_text("text,label,labels\nbook,book,book|pay\nask,ask,ask\n")
    for name in ("a.jsonl", "a.csv"):
        assert read_intents(tmp_path / name, separator="|").labels == (("book", "pay"), ("ask",))
        assert read_intents(tmp_path / name).labels == (("book",), ("ask",))


def test_wrong_files_are_named_with_place_and_reason(tmp_path):
    for name, content, said in (
        ("a.csv", "text,label\nhello\n", r"a.csv:2: 1 columns instead of 2"),
        ("a.csv", "text,label\n,greet\n", r"a.csv:2: the text is blank"),
        ("a.csv", "text,label\nhello, \n", r"a.csv:2: a label is blank"),
        ("a.csv", "a,b,c\n", r"a.csv:1: 3 columns and no header"),
        ("a.csv", "text,label\n", "holds no texts"),
        ("a.csv", "", "is empty"),
        ("a.jsonl", '{"text": "x"\n', r"a.jsonl:1: not JSON"),
        ("a.jsonl", '{"text": "x"}\n', r'a.jsonl:1: .* is read, given \{"text": "x"\}'),
        ("a.jsonl", '["x", "y"]\n', r"a.jsonl:1: "),
        ("a.json", "[]", "one object a line is .jsonl"),
        ("a.json", '{"train": [["x"]]}', r"item 0: \[text, label\] is read"),
        ("a.txt", "x", r"intents are read from \.csv, \.tsv, \.tab, \.jsonl, \.ndjson, \.json, \.yml, \.yaml, \.md \(each"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(InputError, match=said):
            read_intents(tmp_path / name)
    with pytest.raises(InputError, match="does not exist"):
        read_intents(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match=r"2 lines in seq\.in but 1 in label"):
        read_intents(parallel(tmp_path / "x", labels="greet\n"))


LISTED = [("I lost my card", "lost"), ("change my pin", "pin")]
ROWS = [{"text": text, "intent": label} for text, label in LISTED]
EXPORTS = {
    "LUIS": {"luis_schema_version": "7.0.0", "intents": [{"name": "lost"}], "utterances": ROWS},
    "CLU": {"projectFileVersion": "2022-10-01", "assets": {"utterances": ROWS}},
    "wit.ai": {"utterances": ROWS},
    "Rasa": {"rasa_nlu_data": {"common_examples": ROWS}},
    "Watson": {
        "name": "bank",
        "intents": [{"intent": label, "examples": [{"text": text}]} for text, label in LISTED],
        "dialog_nodes": [],
    },
    "Alexa": {
        "interactionModel": {
            "languageModel": {
                "invocationName": "bank",
                "intents": [
                    {"name": "AMAZON.StopIntent", "samples": []},
                    {"name": "lost", "samples": ["I lost my {card}"]},
                    {"name": "pin", "samples": ["change my pin"]},
                ],
            }
        }
    },
}


@pytest.mark.parametrize("form", EXPORTS)
def test_exports_of_utterances_are_training_texts(tmp_path, form):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(EXPORTS[form]))
    read = read_training(path)
    assert list(zip(read.train.texts, read.train.labels, strict=True)) == [(t, (n,)) for t, n in LISTED]
    assert read.valid is None
    assert not has_part(path, "test")


def test_the_intent_none_of_luis_is_out_of_scope(tmp_path):
    path = tmp_path / "export.json"
    none = {"text": "tell me a joke", "intent": "None"}
    path.write_text(json.dumps({**EXPORTS["LUIS"], "utterances": [*ROWS, none]}))
    said = f"{path}: LUIS's intent None is read as out of scope, 1 texts"
    for label in ("oos", "outside", "None"):
        read = read_training(path, out_of_scope=label)
        assert (read.train.names, read.oos_texts) == (("lost", "pin"), ("tell me a joke",))
        assert read.notes == (said,)
    assert read_intents(path).labels[-1] == ("oos",)
    several, outside = read_scoped(path, "train", separator="|")
    assert (several.labels[-1], outside) == ((), ())
    path.write_text(json.dumps(EXPORTS["LUIS"]))
    assert read_training(path).notes == ()
    path.write_text(json.dumps({"utterances": [*ROWS, none]}))
    assert read_training(path).train.names == ("None", "lost", "pin")


def clu(*rows):
    rows = [{"text": text, "intent": name, "dataset": part} for text, name, part in rows]
    return {"metadata": {"projectKind": "Conversation"}, "assets": {"intents": [{"category": "None"}], "utterances": rows}}


def test_clu_has_the_intent_none_and_texts_for_tests(tmp_path):
    path = tmp_path / "export.json"
    rows = [(text, name, "Train") for text, name in LISTED]
    path.write_text(json.dumps(clu(*rows, ("a joke", "None", "Train"), ("my pin", "pin", "Test"), ("rain?", "None", "Test"))))
    read = read_training(path)
    assert (read.train.texts, read.oos_texts) == (tuple(text for text, _ in LISTED), ("a joke",))
    assert read.notes == (f"{path}: CLU's intent None is read as out of scope, 1 texts",)
    assert read.valid is None
    inside, outside = read_scoped(path, "test")
    assert (inside.texts, inside.labels, outside) == (("my pin",), (("pin",),), ("rain?",))
    assert (has_part(path, "train"), has_part(path, "valid"), has_part(path, "test")) == (True, False, True)
    with pytest.raises(InputError, match="has no part valid; it holds train, test"):
        read_intents(path, "valid")
    for part in ("Train", "Test"):  # all texts have one part: the file is not cut
        path.write_text(json.dumps(clu(*((text, name, part) for text, name in LISTED))))
        assert len(read_training(path).train) == len(read_intents(path, "test")) == 2
        assert not has_part(path, "test")


def test_texts_without_an_intent_are_out_of_scope_or_noted(tmp_path):
    path = tmp_path / "export.json"
    joke = {"text": "tell me a joke", "entities": [], "traits": []}
    for content, said in (
        ({**EXPORTS["Watson"], "counterexamples": [joke]}, "Watson's counterexamples are read as out of scope, 1 texts"),
        ({"workspace": {**EXPORTS["Watson"], "counterexamples": [joke]}}, "Watson's counterexamples are read as out of scope, 1 texts"),
        ({"utterances": [*ROWS, joke]}, "wit.ai's utterances without an intent are read as out of scope, 1 texts"),
        ({"utterances": [*ROWS, {**joke, "intent": None}]}, "wit.ai's utterances without an intent are read as out of scope, 1 texts"),
    ):
        path.write_text(json.dumps(content))
        read = read_training(path)
        assert (read.train.texts, read.oos_texts) == (tuple(text for text, _ in LISTED), ("tell me a joke",))
        assert read.notes == (f"{path}: {said}",)
    for content in ({"rasa_nlu_data": {"common_examples": [*ROWS, joke]}}, {"utterances": [*ROWS, {"text": "a joke"}]}):
        path.write_text(json.dumps(content))
        read = read_training(path)
        assert (len(read.train), read.oos_texts) == (2, ())
        assert read.notes == (f"{path}: texts without an intent are left out, 1 texts",)
    path.write_text(json.dumps({"utterances": [joke]}))
    with pytest.raises(InputError, match=r"JSON of LUIS, CLU, wit\.ai, .* is read"):
        read_training(path)


GREETINGS = {"greet": ["hello there", "hi"], "leave": ["good bye"]}
BOTS = {
    "intents.json": json.dumps({"intents": [
        {"tag": tag, "patterns": texts, "responses": ["x"]} for tag, texts in GREETINGS.items()]}),
    "lists.json": json.dumps(GREETINGS),
    "nlu.yml": "version: '3.1'\nnlu:\n" + "".join(
        f"- intent: {tag}\n  examples: |\n" + "".join(f"    - {text}\n" for text in texts) for tag, texts in GREETINGS.items()),
    "nlu.md": "".join(f"## intent:{tag}\n" + "".join(f"- {text}\n" for text in texts) for tag, texts in GREETINGS.items()),
    "texts.tsv": "utterance\tintent\n" + "".join(f"{text}\t{tag}\n" for tag, texts in GREETINGS.items() for text in texts),
}  # fmt: skip


@pytest.mark.parametrize("name", BOTS)
def test_intents_of_bots_and_lists_by_intent(tmp_path, name):
    (tmp_path / name).write_text(BOTS[name])
    read = read_intents(tmp_path / name)
    assert (read.texts, read.labels) == (("hello there", "hi", "good bye"), (("greet",), ("greet",), ("leave",)))
    assert read_training(tmp_path / name).train == read


def test_yaml_without_examples_of_intents_is_named(tmp_path):
    (tmp_path / "a.yml").write_text("greet:\n- hello\n")
    with pytest.raises(InputError, match=r'a.yml has no examples of intents; name a file of Rasa\'s NLU data \(nlu.yml with "- intent:"'):
        read_intents(tmp_path / "a.yml")


@pytest.mark.parametrize("name", ["dev.yml", "test.yaml", "val.md", "validation.yml.gz"])
def test_configuration_and_notes_named_as_a_part_are_none(tmp_path, name):
    """Of YAML and Markdown, those with examples of intents alone are parts."""
    (tmp_path / "train.csv").write_text("text,label\nx,one\ny,two\n")
    for content in ("host: localhost\nport: {{ port }}\n", "# Notes\n- intent of this file\n", "intents:\n- greet\n", ""):
        data = content.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") and data else data)
        read = read_training(tmp_path)
        assert (len(read.train), read.valid) == (2, None)
        assert not has_part(tmp_path, "test")
    ending = name.partition(".")[2].removesuffix(".gz")
    (tmp_path / name).unlink()
    (tmp_path / f"valid.{ending}").write_text(BOTS["nlu.md" if ending == "md" else "nlu.yml"])
    assert read_training(tmp_path).valid.texts == ("hello there", "hi", "good bye")
    (tmp_path / f"valid.{ending}").unlink()
    with pytest.raises(InputError, match=r"no part valid \(a folder valid, or valid with one of \.csv, .*\.md\); it holds train.csv"):
        read_intents(tmp_path, "valid")


@pytest.mark.parametrize("name", ["train", "test", "val", "valid", "validation", "dev", "When can I pay?"])
def test_lists_of_texts_are_intents_whatever_their_names(tmp_path, name):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({name: ["book a train", "to Rome"], "flight": ["fly me"], "empty": []}))
    read = read_training(path)
    assert read.train.labels == ((name,), (name,), ("flight",))
    assert (read.valid, has_part(path, "train"), has_part(path, "test")) == (None, False, False)
    assert read.notes == (f"{path}: keys are read as intents ({name}, flight, empty), their lists as texts of them",)


def test_lists_of_texts_that_are_parts_have_no_labels(tmp_path):
    path = tmp_path / "a.json"
    for content in ({"train": ["x", "y"], "test": ["z"]}, {"train": ["x"], "flight": [["y", "z"]]}):
        path.write_text(json.dumps(content))
        with pytest.raises(InputError, match=r'item 0: \[text, label\] is read, given "x"'):
            read_training(path)


def test_questions_with_their_answers_are_no_intents(tmp_path):
    path = tmp_path / "a.json"
    for content in ({"How do I pay": ["By card."], "When open": ["At nine."]}, {"Pay?": ["By card."], "Open?": ["At nine."], "bye": ["x"]}):
        path.write_text(json.dumps(content))
        with pytest.raises(InputError, match=r"looks like questions with an answer each, such as '(How do I pay|Pay.)'.*rejoinder index build"):
            read_training(path)
    path.write_text(json.dumps({"lost card": ["it is gone"], "greet": ["hi"], "leave": ["bye", "so long"]}))
    assert len(read_training(path).train) == 4


TAGGED = [
    {"tag": "a", "patterns": ["b", {"text": "c"}], "responses": ["x"]},
    {"intent": "a", "text": ["b", "c"], "responses": ["x"]},
    {"name": "a", "examples": ["b", "", {"text": "c"}]},
    {"intent": "a", "utterances": ["b", "c"]},
    {"tag": "a", "patterns": "c", "examples": ["b"]},
]


@pytest.mark.parametrize("intent", TAGGED)
def test_intents_are_read_by_their_usual_names_also_of_a_bare_list(tmp_path, intent):
    path = tmp_path / "a.json"
    for content in ({"intents": [intent]}, [intent]):
        path.write_text(json.dumps(content))
        read = read_intents(path)
        assert (read.texts, read.labels, read.notes) == (("b", "c"), (("a",), ("a",)), ())


def test_entries_that_are_no_texts_are_counted(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"intents": [{"tag": "a", "patterns": ["x", 3, None, {"text": "y"}, {"text": 1}]}]}))
    read = read_intents(path)
    assert read.texts == ("x", "y")
    assert read.notes == (f"{path}: entries of intents that are not texts are left out, 3 in all",)


def test_an_object_of_something_else_is_named(tmp_path):
    known = r'JSON of LUIS, CLU, wit.ai, Watson, Alexa, Rasa and intents.json is read, and \{"train": \[\[text, label\], ...\], ...\}'
    for content, said in (
        ({"train": {"a": 1}}, f"a.json: {known} or .*; one object a line is .jsonl"),
        ([{"a": 1}], f"a.json: {known}"),
        ({"rows": [["a", "b"]]}, f"a.json: {known}"),
        (LEX_BOT, f"a.json looks like an Amazon Lex bot, whose intents are not read; {known}"),
        ({"test": [["a", "b"]]}, "a.json has no part train; it holds test"),
        ({"intents": [{"tag": "a", "responses": ["b"]}]}, r'a.json: no intent has both "tag" and "patterns"; give \{"intents"'),
        ([{"patterns": ["a"], "responses": ["b"]}], 'a.json: no intent has both "tag" and "patterns"'),
    ):
        (tmp_path / "a.json").write_text(json.dumps(content))
        for read in (read_training, read_intents):
            with pytest.raises(InputError, match=said):
                read(tmp_path / "a.json")


@pytest.mark.parametrize(
    "header",
    ["text,intent_name", "phrase,class", "message;tag", "\ufeffUtterance;Intent Name", "MESSAGE,Label", "Query,Intent.Name"],
)
def test_usual_names_of_columns_are_a_header(tmp_path, header):
    cut = ";" if ";" in header else ","
    (tmp_path / "a.csv").write_text(f"{header}\nhello there{cut}greet\ngood bye{cut}leave\n", encoding="utf-8")
    read = read_intents(tmp_path / "a.csv")
    notes = (f"{tmp_path / 'a.csv'}: a table (semicolon, utf-8{'-sig' * header.startswith(chr(0xFEFF))})",) if cut == ";" else ()
    assert (read.texts, read.labels, read.notes) == (("hello there", "good bye"), (("greet",), ("leave",)), notes)


def test_jsonl_has_the_same_names(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"Message": "hello", "Intent Name": "greet"}\n')
    assert read_intents(tmp_path / "a.jsonl").labels == (("greet",),)


ALARMS = [("set an alarm, please", "alarm"), ("wake me; soon", "alarm"), ("play jazz, loud", "music"), ('say "hello" twice', "music"), ('"jazz" again', "music")]


@pytest.mark.parametrize("name", ["a.tsv", "a.tab", "a.tsv.gz"])
@pytest.mark.parametrize("header", ["", "text\tlabel\n"])
@pytest.mark.parametrize("rows", [ALARMS, ALARMS[:1] + ALARMS[2:3]])
def test_tabs_alone_part_the_columns_of_a_file_that_is_named_for_them(tmp_path, name, header, rows):
    """Texts with one comma each would be columns of a table with commas as well."""
    content = (header + "".join(f"{text}\t{label}\n" for text, label in rows) * 5).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    read = read_intents(tmp_path / name)
    assert list(zip(read.texts, read.labels, strict=True)) == [(text, (label,)) for text, label in rows] * 5
    assert read.notes == ()


def test_quoted_cells_of_a_tab_separated_file_and_uneven_rows(tmp_path):
    (tmp_path / "a.tsv").write_text('text\tlabel\n"one\ttab"\tx\n"plain"\ty\n')
    assert read_intents(tmp_path / "a.tsv").texts == ("one\ttab", "plain")
    (tmp_path / "a.tsv").write_text("hello\tx\nhi\n")
    with pytest.raises(InputError, match=r"a\.tsv:2"):
        read_intents(tmp_path / "a.tsv")


def test_a_first_row_that_may_be_a_header_is_noted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("Frage;Absicht\nhello;greet\nhi;greet\nbye;leave\n")
    read = read_intents(path)
    assert read.texts[0] == "Frage"
    table, said = read.notes
    assert table == f"{path}: a table (semicolon, utf-8)"
    assert "the first row was read as a text, 'Frage', of the intent 'Absicht'" in said
    assert "if it is a header, name the columns text and label" in said
    assert read_training(path).notes == read.notes
    path.write_text("hello,greet\nbye,leave\nhi,greet\n")
    assert read_intents(path).notes == ()


@pytest.mark.parametrize("content", ["", "\n", "text,label\n"])
def test_an_empty_part_for_validation_counts_as_absent(tmp_path, content):
    (tmp_path / "train.csv").write_text("text,label\nx,one\ny,two\n")
    (tmp_path / "valid.csv").write_text(content)
    (tmp_path / "test.csv").write_text("text,label\n")
    assert read_training(tmp_path).valid is None
    with pytest.raises(InputError, match=r"the part test of .* holds no texts"):
        read_intents(tmp_path, "test")
    parallel(tmp_path / "set" / "train", labels="a\nb\n")
    parallel(tmp_path / "set" / "valid", "", "")
    assert read_training(tmp_path / "set").valid is None
