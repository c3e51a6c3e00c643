"""`rejoinder mine`: exported chats and folders of examples to replies that an index is built of."""

import csv
import json

CHATS = [
    ("where is my order?", "Hi Anna, your order 4711 ships on Monday."),
    ("order status pls", "Hi Jo, your order 4712 ships on Friday."),
    ("when will it arrive? a@b.example", "Hi Bob, your order 47130 ships on Tuesday."),
    ("bye", "You are welcome!"),
    ("thanks", "You are welcome."),
]


def write_chats(path):
    lines = [
        json.dumps({"messages": [{"role": "user", "content": asked}, {"role": "agent", "content": told}]})
        for asked, told in CHATS
    ]  # fmt: skip
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_replies_are_mined_reviewed_and_indexed(tmp_path, command):
    chats = write_chats(tmp_path / "chats.jsonl")
    table = tmp_path / "replies.csv"
    mined = command("mine", chats, "-o", table, "--least", "2", "--json").json
    assert (mined["messages"], mined["replies"]) == (5, 2)
    assert mined["curve"] == [{"replies": 1, "covered": 0.6}, {"replies": 2, "covered": 1.0}]
    rows = list(csv.DictReader(table.open(encoding="utf-8", newline="")))
    assert rows[0]["text"] == "Hi {name}, your order {order} ships on {date}."
    assert "<email>" in rows[0]["examples"]
    built = command(
        "index", "build", "convert-small", table, "-o", tmp_path / "index", "--json"
    ).json
    assert (built["replies"], built["examples"]) == (2, 5)
    assert (
        "2 cover 100% of the messages"
        in command("mine", chats, "-o", table, "--least", "2", "--overwrite").out
    )


def test_a_folder_of_examples_is_mined_too(tmp_path, command):
    chats = write_chats(tmp_path / "chats.jsonl")
    command("data", "chats", chats, "-o", tmp_path / "data")
    mined = command("mine", tmp_path / "data", "-o", tmp_path / "r.jsonl", "--least", "1", "--json")
    assert mined.json["messages"] == 5


def test_bad_input_is_refused(tmp_path, refused):
    chats = write_chats(tmp_path / "chats.jsonl")
    refused("mine", tmp_path / "none.zip", "-o", tmp_path / "r.csv", said="does not exist")
    refused("mine", chats, "-o", tmp_path / "r.txt", said=".csv or .jsonl")
    refused("mine", chats, "-o", chats, said="--overwrite")
    refused("mine", chats, "-o", tmp_path / "r.csv", "--set", "agents=Bo", said="agents")
