"""`rejoinder reply` says how a message was read."""

import json


def test_reply_says_in_json_how_a_message_was_read_and_why_it_found_nothing(command, tmp_path):
    rows = [
        {"text": "Parcels take three days.", "examples": ["when will my parcel come", "where is my order"]},
        {"text": "Send it back within 30 days.", "examples": ["I want to return it", "can I send it back"]},
    ]
    (tmp_path / "faq.jsonl").write_text("\n".join(map(json.dumps, rows)))
    built = command("index", "build", "bi-small", tmp_path / "faq.jsonl", "-o", tmp_path / "faq")
    assert built.code == 0, built.err
    foreign = command("reply", tmp_path / "faq", "Wo ist meine Bestellung?", "--json").json
    assert foreign["replies"] == []
    assert foreign["notes"] == {"language": "unknown"}
    assert foreign["reason"] == "language"
    refusal = command("reply", tmp_path / "faq", "Wo ist meine Bestellung?").out.strip()
    assert refusal == "no reply: the message is not English; --minimum-score N searches all the same"
    chat = command("chat", tmp_path / "faq", stdin="Wo ist meine Bestellung?\n").out
    assert chat.splitlines()[-1] == f"({refusal})"
    [turn] = command("chat", tmp_path / "faq", "--json", stdin="Wo ist meine Bestellung?\n").json["turns"]
    assert (turn["notes"], turn["reason"]) == (foreign["notes"], "language")
    typo = command("reply", tmp_path / "faq", "wheres my ordr", "--json").json
    assert typo["notes"] == {"corrected": {"ordr": "order"}}
    assert "reason" not in typo
