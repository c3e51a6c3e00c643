"""Reading texts and labels in every form that is promised, and what is said of wrong files."""

import gzip
import json

import pytest

from rejoinder.errors import InputError
from rejoinder.intents.data import IntentData, has_part, read_intents, read_scoped

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
        InputError, match=r"b.jsonl:1: 2 labels; give one, or allow several with --multi-label"
    ):
        read_intents(tmp_path / "b.jsonl")


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
        ("a.txt", "x", "intents are read from .csv, .jsonl"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(InputError, match=said):
            read_intents(tmp_path / name)
    with pytest.raises(InputError, match="does not exist"):
        read_intents(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match=r"2 lines in seq\.in but 1 in label"):
        read_intents(parallel(tmp_path / "x", labels="greet\n"))


def test_texts_are_cut_into_parts_by_intent(tmp_path):
    from rejoinder.intents.parts import cut, write_parts

    data = IntentData(tuple(f"text {n}" for n in range(60)), tuple(("ab"[n % 2],) for n in range(60)))
    parts = cut(data, (0.8, 0.1, 0.1))
    assert [len(part) for part in parts] == [48, 6, 6]
    assert [sum(labels == ("a",) for labels in part.labels) for part in parts] == [24, 3, 3]
    assert sorted(text for part in parts for text in part.texts) == sorted(data.texts)
    assert cut(data, (0.8, 0.1, 0.1)) == parts != cut(data, (0.8, 0.1, 0.1), seed=1)
    write_parts(parts, tmp_path / "parts")
    assert read_intents(tmp_path / "parts", "valid") == parts[1]
    for shares in ((0.8, 0.1), (0.9, 0.2, 0.1), (1.1, -0.1, 0.0)):
        with pytest.raises(InputError, match="three that add up to 1"):
            cut(data, shares)
