"""`rejoinder list formats`, and files of tools from the command line: found by content, chosen, looked at, indexed."""

import json
import os
import sys
from pathlib import Path

import pytest

from rejoinder.cli import reply_files
from rejoinder.corpora.registry.recognition import FORMS
from rejoinder.retrieval.index import Index

VERB = []
FAQ = "Kundenfrage;Textbaustein;Thema\nWo ist mein Paket?;Unterwegs, für Sie.;Versand\nPaket?;Unterwegs, für Sie.;x\nHallo;;y\n"
CHAT = """[01.03.24, 09:00:00] Bea: Where is it, bea@x.org?
[01.03.24, 09:01:00] Shop: On its way, Bea.
[01.03.24, 09:02:00] Bea: Thanks!
[01.03.24, 09:03:00] Shop: \u200eimage omitted
[02.03.24, 09:00:00] Bea: Hello?
[02.03.24, 09:01:00] Shop: Hello, Bea.
"""


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faq.csv").write_text(FAQ, encoding="cp1252")
    (tmp_path / "chat.txt").write_text(CHAT, encoding="utf-8")


def test_all_forms_are_listed_and_one_is_described(command, answer, refused):
    out = command("list", "formats").out
    assert all(f"  {name} " in out for name in FORMS)
    assert "replies: rejoinder index build" in out
    assert "chats: rejoinder data chats" in out
    (form,) = answer("list", "formats", "whatsapp")["formats"]
    assert (form["holds"], form["title"]) == ("chats", "WhatsApp chat")
    assert "Export chat" in form["export"]
    refused("list", "formats", "excel", said="no form 'excel'; there are whatsapp, telegram")


COLUMNS = ("--set", "columns=text=Textbaustein,questions=kundenfrage,title=Thema")


def test_a_dry_run_shows_what_a_file_of_replies_holds_and_writes_nothing(command, answer, refused, tmp_path):
    before = sorted(tmp_path.iterdir())
    shown = answer("index", "build", "convert-small", "faq.csv", "--dry-run", *COLUMNS)
    assert shown["notes"] == [
        "faq.csv: table (semicolon, cp1252): text = Textbaustein, title = Thema, questions = Kundenfrage",
        "faq.csv: replies with the same text are one, with the questions of all and the fields of the first: others "
        "differ in Thema",
    ]
    assert (shown["replies"], shown["questions"], shown["dropped"]) == (1, 2, {"rows without a reply": 1})
    (reply,) = shown["shown"]
    assert (reply["text"], reply["title"]) == ("Unterwegs, für Sie.", "Versand")
    assert reply["examples"] == [["Wo ist mein Paket?"], ["Paket?"]]
    out = command("index", "build", "convert-small", "faq.csv", "--dry-run", *COLUMNS).out
    assert "? Paket?\n> Unterwegs, für Sie." in out
    assert "left out: 1 rows without a reply" in out
    assert sorted(tmp_path.iterdir()) == before
    refused("index", "build", "convert-small", "faq.csv", "--dry-run", said="there is Kundenfrage, Textbaustein, Thema")
    refused("index", "build", "convert-small", "faq.csv", *COLUMNS, said="give -o INDEX for the folder")


@pytest.mark.parametrize("option", ["--dry-run", "-o=new"])
def test_a_table_of_a_header_alone_is_refused_as_such(refused, tmp_path, option):
    (tmp_path / "header.csv").write_text("question,answer\n")
    said = "header.csv has a header and no rows; give each reply a row"
    refused("index", "build", "bi-small", "header.csv", *option.split("="), said=said)


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/fd")
@pytest.mark.parametrize("verb", [["index", "build", "bi-small"], ["index", "add", "old"]])
def test_many_replies_from_a_pipe_are_read_once(command, tmp_path, monkeypatch, verb):
    monkeypatch.setattr(reply_files, "MOST_KEPT", 2)
    (tmp_path / "one.txt").write_text("Good night.\n")
    command("index", "build", "bi-small", "one.txt", "-o", "old")
    reading, writing = os.pipe()
    os.write(writing, b"Hello.\nBye.\nSee you.\n")
    os.close(writing)
    output = ["-o", "new"] if "build" in verb else []
    done = command(*verb, f"/dev/fd/{reading}", "--set", "format=text", *output)
    os.close(reading)
    assert done.code == 0, done.err
    texts = [candidate.text for _, candidate in Index.open("new" if "build" in verb else "old")]
    assert texts[-3:] == ["Hello.", "Bye.", "See you."]


@pytest.mark.parametrize("option", ["--dry-run", "-o=new"])
def test_a_payload_that_json_cannot_hold_is_refused_by_a_dry_run_too(refused, option):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"text": ["Hello.", "Bye."], "price": [float("nan"), 1.0]}), "prices.parquet")
    said = "reply 0 cannot be stored as JSON in UTF-8"
    refused("index", "build", "bi-small", "prices.parquet", "--json", *option.split("="), said=said)


def test_replies_are_indexed_in_the_form_that_is_found_or_chosen(command, refused, tmp_path):
    err = command("index", "build", "convert-small", "faq.csv", "-o", "faq", *COLUMNS).err
    assert "faq.csv: table (semicolon, cp1252): text = Textbaustein" in err
    assert "left out: 1 rows without a reply" in err
    (tmp_path / "more.log").write_text("One.\nTwo.\n")
    refused("index", "add", "faq", "more.log", said="--set format=text reads one reply a line")
    command("index", "add", "faq", "more.log", "--set", "format=text")
    assert [candidate.text for _, candidate in Index.open("faq")] == ["Unterwegs, für Sie.", "One.", "Two."]
    refused("index", "build", "convert-small", "chat.txt", "-o", "no",
            said="looks like chats (WhatsApp chat), not replies; make examples of it (rejoinder data")  # fmt: skip


def test_an_export_becomes_examples_and_an_index_of_its_responses(command, refused):
    refused("data", "chats", "chat.txt", "-o", "data", said="messages of Bea (3), Shop (2): name the agent with --set")
    shop = ("--set", "agent=Shop", "--set", "redact=true")
    looked = command("data", "chats", "train=chat.txt", "--dry-run", *shop)
    assert "chat.txt: WhatsApp chat, 2 chats, agent: Shop" in looked.out
    assert "  Where is it, <email>?\n> On its way, <name>." in looked.out
    assert "left out: 1 attachments, calls and lines of WhatsApp" in looked.out
    assert "messages in the files: 3 of customer (context), 2 of agent (responses)" in looked.out
    out = command("data", "chats", "train=chat.txt", "-o", "data", *shop).out
    assert "note: chat.txt: WhatsApp chat, 2 chats, agent: redacted" in out
    summary = json.loads(Path("data/data.json").read_text())
    assert (summary["roles"], summary["splits"]["train"]["kept"]) == ({"customer": 3, "agent": 2}, 2)
    assert "Bea" not in json.dumps(summary)
    command("index", "build", "convert-small", "data", "-o", "replies")
    assert [candidate.text for _, candidate in Index.open("replies")] == ["On its way, <name>.", "Hello, <name>."]
    refused("data", "chats", "chat.txt", "-o", "no", "--set", "agent=Eva",
            said="chat.txt: nobody is called Eva; there are messages of Bea")  # fmt: skip


def test_a_table_without_a_header_and_columns_of_two_words_are_chosen(answer, refused, tmp_path):
    words = ("index", "build", "convert-small", "--dry-run")
    (tmp_path / "two.csv").write_text("Meine Frage;Kurze Antwort\nWo?;Hier.\n")
    chosen = ("--set", "columns=text=Kurze Antwort,questions=Meine Frage")
    (reply,) = answer(*words, "two.csv", *chosen)["shown"]
    assert (reply["text"], reply["examples"]) == ("Hier.", [["Wo?"]])
    (tmp_path / "bare.csv").write_text("Wo?;Hier.\n")
    chosen = ("--set", "format=table,delimiter=semicolon,header=no", "--set", "columns=text=2")
    (reply,) = answer(*words, "bare.csv", *chosen)["shown"]
    assert reply["text"] == "Hier."
    refused(*words, "two.csv", "--set", "form=table", said="unknown key 'form'")
    refused(*words, "two.csv", "--set", "format=5", said="format")
