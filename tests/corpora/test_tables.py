"""Tables: the delimiter is found whatever the cells hold, and what was written is read."""

import csv
import io
import json
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.corpora.forms import workbooks
from rejoinder.corpora.forms.csv_pairs import read_csv
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.corpora.forms.source import look
from rejoinder.corpora.forms.choice import Choice, DELIMITERS
from rejoinder.corpora.forms.delimited import find_delimiter
from rejoinder.corpora.forms.tables import open_table
from rejoinder.errors import InputError
from tests.corpora.readers.workbook import workbook

CELLS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
KNOWN = {"question", "answer", "title"}


def written(rows, delimiter, dialect="excel"):
    text = io.StringIO()
    csv.writer(text, dialect, delimiter=delimiter).writerows(rows)
    return text.getvalue()


@given(st.sampled_from(list(DELIMITERS)), st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_the_delimiter_is_found_by_the_names_of_the_columns(delimiter, rows):
    assert (
        find_delimiter(written([("Question", "answer"), *rows], delimiter).splitlines(), KNOWN) == delimiter
    )


@given(st.sampled_from(list(DELIMITERS)), st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=2, max_size=8))
def test_the_delimiter_is_found_by_equally_long_rows(delimiter, rows):
    assert (
        find_delimiter(written([("Wort", "Satz", "Text"), *rows], delimiter).splitlines(), KNOWN) == delimiter
    )


@given(
    st.sampled_from(list(DELIMITERS)),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.lists(st.tuples(CELLS, CELLS.filter(str.strip)), min_size=1, max_size=8),
)
def test_what_was_written_is_read(tmp_path_factory, delimiter, encoding, rows):
    path = tmp_path_factory.mktemp("table") / "a.csv"
    path.write_bytes(written([("question", "answer"), *rows], delimiter).encode(encoding))
    table = open_table(look(path), Choice(), KNOWN)
    assert [tuple(row.values()) for _, row in table.rows] == rows
    assert table.form == f"table ({DELIMITERS[delimiter]}, {encoding})"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Größe;Für alle Fälle: schöne Grüße\n" * 9),
        ("cp1251", "вопрос;Где мой заказ? Спасибо большое\n" * 9),
        ("shift_jis", "質問;注文はどこですか\n" * 9),
        ("gb18030", "问题;我的订单在哪里?谢谢你们\n" * 9),
    ],
)
def test_encodings_without_a_mark_are_found(tmp_path, encoding, text):
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode(encoding))
    assert look(path).text == text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "mac-roman"])
def test_lines_may_end_with_a_carriage_return_alone(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes('question,answer\rWhere?,"Here,\nor there."\rCafé?,"Not yet."\r'.encode(encoding))
    rows = [("Where?", "Here,\nor there."), ("Café?", "Not yet.")]
    table = open_table(look(path, encoding=encoding), Choice(), KNOWN)
    assert [tuple(row.values()) for _, row in table.rows] == rows
    if encoding != "mac-roman":
        examples = read_csv(path)
        assert [(*example.context, example.response) for example in examples] == rows


def test_a_carriage_return_in_quotes_ends_no_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'"question\rof a customer",answer\nWhere?,Here.\n')
    table = open_table(look(path), Choice(), KNOWN)
    assert [tuple(row.values()) for _, row in table.rows] == [("Where?", "Here.")]


@pytest.mark.parametrize("name", ["a.csv", "pairs.csv"])
def test_a_stray_carriage_return_is_named(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"question,answer\nWhe\rre?,Here.\n")
    with pytest.raises(InputError, match=rf"{name}:2: not CSV \(a carriage return outside quotes\); put texts"):
        list(read_csv(path) if name == "pairs.csv" else open_table(look(path), Choice(), KNOWN).rows)


def test_a_wrong_encoding_is_one_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("question;answer\nGröße;ü\n".encode("cp1252"))
    with pytest.raises(InputError, match=r"a.csv:2: not UTF-8; convert the file to UTF-8"):
        look(path, encoding="utf-8")


def test_a_workbook_with_titles_above_and_a_cell_at_the_end_of_the_sheet(tmp_path):
    path = tmp_path / "a.xlsx"
    rows = [["Our answers"], ["", "as of today"], ["No", "Question", "Answer"], [1.5, "Where?", "Here."], [2, "When?"]]
    sheet = workbook(rows, [["nothing"]])
    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(sheet)) as file, zipfile.ZipFile(data, "w") as other:
        for name in file.namelist():
            last = '<row r="1048576"><c r="XFD1048576"><v>9</v></c></row>' if "sheet2" in name else ""
            other.writestr(name, file.read(name).decode().replace("</sheetData>", f"{last}</sheetData>"))
    path.write_bytes(data.getvalue())
    table = open_table(look(path), Choice(), KNOWN)
    assert table.form == "workbook, sheet S1, header in row 3"
    assert [row for _, row in table.rows] == [
        {"No": 1.5, "Question": "Where?", "Answer": "Here."},
        {"No": 2, "Question": "When?", "Answer": None},
    ]


def test_a_workbook_of_too_many_cells_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(workbooks, "MAX_CELLS", 9)
    path = tmp_path / "a.xlsx"
    path.write_bytes(workbook([["question", "answer"]] * 4))
    with pytest.raises(InputError, match=r"holds more than 9 cells; save the sheet as .csv"):
        open_table(look(path), Choice(), KNOWN)


def test_an_old_workbook_is_one_line(tmp_path):
    path = tmp_path / "a.xls"
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(InputError, match=r"is an old workbook \(.xls, .doc\); save it as .xlsx or .csv"):
        look(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.pdf", b"%PDF-1.7\n%\xe2\xe3\n1 0 obj", "is a PDF; save what it was made of, or its text, as .html or .txt"),
        ("a.rtf", b"{\\rtf1\\ansi Q: Where?}", "is rich text"),
        ("a.docx", "word/document.xml", "is a Word document; save it as a web page"),
        ("a.ods", "content.xml", "is an OpenDocument file; save a sheet as .xlsx or .csv"),
    ],
)
def test_documents_of_office_programs_say_what_to_save(tmp_path, name, content, message):
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(content, "<x/>")
    with pytest.raises(InputError, match=message):
        look(path)


def test_fields_that_are_lost_where_replies_of_one_text_are_joined_are_named(tmp_path):
    rows = [
        {"id": 1, "text": "We open at nine.", "team": "a", "examples": ["When are you open?"]},
        {"id": 2, "text": "We open at nine.", "team": "b", "examples": ["opening hours"]},
        {"id": 3, "text": "Other.", "team": "b"},
    ]
    path = tmp_path / "replies.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    reading = Reading()
    first, other = read_candidates(path, None, None, reading)
    assert (first.payload["team"], len(first.examples), other.text) == ("a", 2, "Other.")
    assert "others differ in team" in reading.notes[-1]
