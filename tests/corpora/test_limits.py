"""Small files that hold much: each is refused with words, in little time and memory."""

import io
import json
import subprocess
import sys
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.corpora.registry.chats import ChatsSettings, read_chats
from rejoinder.errors import InputError
from tests.adversary import seconds
from tests.corpora.readers.workbook import workbook

MAIL = "From: a@b.de\nDate: Mon, 1 Jan 2024 10:00:00 +0000\nSubject: x\n"


def parquet(table):
    data = io.BytesIO()
    pq.write_table(table, data, compression="zstd")
    return data.getvalue()


def zipped(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, text in files.items():
            file.writestr(name, text)
    return data.getvalue()


def sheet(row):
    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook([["text"], ["hello"]]))) as file, zipfile.ZipFile(data, "w") as other:
        for name in file.namelist():
            text = file.read(name)
            if "sheet1" in name:
                text = text.replace(b"</sheetData>", row.encode() + b"</sheetData>")
            other.writestr(name, text)
    return data.getvalue()


def one_text(length, rows):
    indices = pa.array([0] * rows, pa.int32())
    return pa.table({"text": pa.DictionaryArray.from_arrays(indices, pa.array(["a" * length]))})


REPLIES = {
    "rows without a value": ("a.parquet", lambda: parquet(pa.table({"text": pa.nulls(20_000_000, pa.string())})), "200 times"),
    "a column without a type": ("a.parquet", lambda: parquet(pa.table({"text": pa.nulls(20_000_000)})), "200 times"),
    "one long text in all rows": ("a.parquet", lambda: parquet(one_text(300_000, 30_000)), "200 times"),
    "a list of nothing": ("a.parquet", lambda: parquet(pa.table({"text": ["x"], "l": pa.array([[None] * 2_000_000])})), "200 times"),
    "columns of Parquet": ("a.parquet", lambda: parquet(pa.table({f"c{n}": ["x"] for n in range(3_000)})), "3,000 columns"),
    "columns of a table": ("a.csv", lambda: f"{','.join(f'c{n}' for n in range(40_000))}\n{',' * 39_999}\n", "40,000 columns"),
    "a row far below": ("a.xlsx", lambda: sheet('<row r="99999999999"><c r="A99999999999"><v>9</v></c></row>'), "a row after 1,048,576"),
    "values in one record": ("a.zip", lambda: zipped({"a.json": '[{"text": ["a", ' + "[]," * 1_200_000 + "[]]}]"}), "more than 1,000,000 values"),
    "files in a zip file": ("a.zip", lambda: zipped({f"{n}.txt": "a " * 4_000_000 for n in range(5)}), "200 times"),
    "brackets of JSON": ("a.json", lambda: "[" * 3_000, "nested more than 64 deep"),
    "brackets of a line": ("a.jsonl", lambda: '{"text": ' + "[" * 100_000, "nested too deep"),
    "brackets of a page": ("a.html", lambda: '<script type="application/ld+json">' + "[" * 100_000 + "</script>", "no FAQ"),
    "numbers of a page": ("a.html", lambda: f'<script type="application/ld+json">{[1] * 300_000}</script>', "no FAQ"),
    "brackets of YAML": ("a.yml", lambda: "responses: " + "[" * 30_000, "nested more than 64 deep"),
    "references of YAML": (
        "a.yml",
        lambda: "nlu:\n- intent: a\n  examples: &x\n" + "  - hi\n" * 2_000
        + "".join(f"- intent: a{n}\n  examples: *x\n" for n in range(2_000)) + "responses:\n  utter_a:\n  - text: hello\n",
        "more than 1,000,000 values",
    ),
    "a long name of a field": ("a.json", lambda: '{"' + "A" * 500_000 + '": [' + "1," * 250_000 + "1]}", "no field text"),
    "a line of blanks": ("a.yml", lambda: " " * 60_000 + "\x01\n", "looks like YAML"),
}  # fmt: skip


def _write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("name", REPLIES)
def test_small_files_that_hold_much_are_refused(tmp_path, name):
    suffix, make, said = REPLIES[name]
    path = tmp_path / suffix
    _write(path, make())

    def read():
        with pytest.raises(InputError, match=said):
            list(read_candidates(path))

    assert seconds(read) < 5


def test_their_memory_is_limited(tmp_path):
    """Read in a process that may take 400 MB beside the libraries."""
    names = []
    for number, (suffix, make, _) in enumerate(REPLIES.values()):
        names.append(str(tmp_path / f"{number}{suffix}"))
        _write(tmp_path / f"{number}{suffix}", make())
    code = """
        import resource, sys, lxml.html, openpyxl, pyarrow.compute, pyarrow.parquet, yaml
        from pathlib import Path
        from rejoinder.corpora.registry.candidates import read_candidates
        from rejoinder.errors import InputError
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + (400 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        for name in sys.argv[1:]:
            try:
                list(read_candidates(name))
            except InputError:
                print("refused")
    """
    code = "\n".join(line.removeprefix("        ") for line in code.splitlines())
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["refused"] * len(names), done.stderr[-2_000:]


def _chats(path, content, **settings):
    _write(path, content)
    reading = Reading()
    found = []
    took = seconds(lambda: found.extend(read_chats(path, reading, ChatsSettings(**settings))))
    return found, reading, took


def test_a_subject_of_encoded_words_and_a_name_of_brackets(tmp_path):
    subject = " ".join(["=?utf-8?q?a?="] * 20_000)
    head = MAIL.replace("Subject: x", f"Subject: {subject}")
    mails = "\n".join(
        f"From a 2024\n{text}\n\nhello\n" for text in (head, MAIL.replace("a@b.de", "(" * 50_000))
    )
    _, reading, took = _chats(tmp_path / "a.mbox", mails, agent="shop")
    assert took < 1
    assert reading.dropped.get("mails whose headers cannot be read") == 1


def test_a_mail_of_thousands_of_parts(tmp_path):
    parts = "".join(f'Content-Type: multipart/mixed; boundary="{n}"\n\n--{n}\n' for n in range(2_000))
    _, reading, took = _chats(tmp_path / "a.eml", MAIL + parts)
    assert took < 1
    assert reading.dropped == {"mails of more than 50 parts, or nested too deep": 1}


def test_a_chat_of_twenty_thousand_people(tmp_path):
    lines = [f"31/12/20, 23:59 - Name{n:05} Last: hello Name{n - 1:05} Last\n" for n in range(20_000)]
    found, _, took = _chats(tmp_path / "a.txt", "".join(lines), redact=True, agent="Name00007 Last")
    assert took < 5
    assert [example.response for example in found] == ["hello <name>"]


def test_twenty_thousand_tweets_that_answer_a_chain(tmp_path):
    header = "tweet_id,author_id,inbound,created_at,text,in_response_to_tweet_id\n"
    chain = [f"{n},a,{n % 2 == 0},,text {n},{n - 1 if n else ''}\n" for n in range(10_000)]
    leaves = [f"{10_000 + n},shop,False,,answer {n},{9_998}\n" for n in range(5_000)]
    found, _, took = _chats(tmp_path / "a.csv", header + "".join(chain) + "".join(leaves))
    assert took < 5
    assert len(found) == 10_000 // 2 + 5_000
    assert {len(example.context) for example in found[-5_000:]} == {11}
    assert len({example.thread for example in found}) == 1


def test_a_zip_file_of_many_files_is_listed_once(tmp_path):
    messages = {f"general/20{n // 336:02}-{n // 28 % 12 + 1:02}-{n % 28 + 1:02}.json": json.dumps([]) for n in range(6_000)}
    _, _, took = _chats(tmp_path / "a.zip", zipped(messages))
    assert took < 5


def test_a_whole_history_has_a_thousand_messages_at_most():
    """All of 20,000 turns would be 200 million messages."""
    reading = Reading(history=None)
    turns = [str(number) for number in range(1500)]
    assert reading.newest(turns[:1001]) == tuple(turns[:1001])
    assert reading.cut_contexts == 0
    assert reading.newest(turns) == tuple(turns[499:])
    assert reading.cut_contexts == 1
    assert len(Reading(history=1200).newest(turns)) == 1201
