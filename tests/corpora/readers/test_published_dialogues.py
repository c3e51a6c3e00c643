"""DailyDialog, EmpatheticDialogues, MultiWOZ and OpenAssistant, in files of their published forms."""

import gzip
import json

import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.dialogues.daily_dialog import read_daily_dialog
from rejoinder.corpora.readers.dialogues.empathetic import read_empathetic
from rejoinder.corpora.readers.dialogues.multiwoz import MultiwozSettings, read_multiwoz, split_by_lists
from rejoinder.corpora.readers.dialogues.open_assistant import OpenAssistantSettings, read_open_assistant
from rejoinder.errors import InputError

DAILY = """\
The kitchen stinks . __eou__ I'll throw out the garbage . __eou__
Coffee ? __eou__ __eou__ I don 't like it . __eou__ Try a little . __eou__
Hello ! __eou__
"""
EMPATHETIC = """\
conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags
hit:0_conv:1,1,sentimental,Fireworks_comma_ once.,1,We saw the fireworks_comma_ "just" us.,5|5|5_2|2|5,
hit:0_conv:1,2,sentimental,Fireworks_comma_ once.,0,"Was it a friend?,5|5|5_2|2|5,
hit:0_conv:1,3,sentimental,Fireworks_comma_ once.,1,Yes.,5|5|5_2|2|5,
hit:1_conv:2,1,afraid,A noise.,2,I hear a noise.,5|5|5_5|5|5,,one|two_comma_ three
hit:1_conv:2,2,afraid,A noise.,3,The cat?,5|5|5_5|5|5,,one|two
hit:2_conv:5,1,proud,A cup.,4,I won!,5|5|5_5|5|5,
"""
WOZ = {
    "SNG0073.json": {
        "goal": {"taxi": {"info": {}}, "message": ["You want a taxi"]},
        "log": [
            {"text": "I need a taxi. ", "metadata": {}},
            {"text": "When?", "metadata": {"taxi": {"semi": {"leaveAt": ""}}}},
            {"text": "After 17:15.", "metadata": {}},
            {"text": "Booked.", "metadata": {"taxi": {}}},
        ],
    },
    "MUL1.json": {"goal": {}, "log": [{"text": "A hotel?", "metadata": {}}, {"text": "Which area?", "metadata": {}}]},
}
SGD = [
    {
        "dialogue_id": "1_00000",
        "services": ["Restaurants_1"],
        "turns": [
            {"speaker": "USER", "utterance": "A table for two.", "frames": []},
            {"speaker": "SYSTEM", "utterance": "Where?", "frames": []},
            {"speaker": "USER", "utterance": "San Jose.", "frames": []},
            {"speaker": "SYSTEM", "utterance": "Done.", "frames": []},
        ],
    }
]


def message(name, text, role, *replies, **more):
    return {"message_id": name, "text": text, "role": role, "lang": "en", "replies": list(replies), **more}


def tree(root):
    return json.dumps({"message_tree_id": root["message_id"], "tree_state": "ready_for_export", "prompt": root}) + "\n"


TREE = tree(
    message(
        "a", "How do I bake bread?", "prompter",
        message("b", "Mix flour.", "assistant", message("c", "How long?", "prompter", message("d", "An hour.", "assistant"))),
        message("e", "Buy some.", "assistant"),
        message("f", "Go away.", "assistant", deleted=True),
    )
)  # fmt: skip


@pytest.fixture
def run(tmp_path):
    def read(reader, content, settings=None, name="file", reading=None):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(reader(path, reading or Reading(), settings))

    return read


def test_daily_dialog_is_a_dialogue_a_line(run):
    reading = Reading()
    first, second, third = run(read_daily_dialog, DAILY, name="dialogues_train.txt", reading=reading)
    assert (first.context, first.response) == (("The kitchen stinks .",), "I'll throw out the garbage .")
    assert (third.context, third.response) == (("Coffee ?", "I don 't like it ."), "Try a little .")
    assert (first.id, second.id, first.source) == ("dialogues_train:1:1", "dialogues_train:2:2", "daily-dialog")
    assert second.thread == third.thread != first.thread
    assert reading.blank_messages == 1
    assert reading.lines == 3


def test_a_line_of_another_file_is_a_bad_one(run):
    with pytest.raises(InputError, match="file:1: no __eou__, which ends each utterance"):
        run(read_daily_dialog, "1 1 2 0\n")


def test_empathetic_dialogues_have_commas_by_name_and_quotes_that_are_none(run):
    reading = Reading()
    examples = run(read_empathetic, EMPATHETIC, name="train.csv", reading=reading)
    assert [(example.context, example.response) for example in examples] == [
        (('We saw the fireworks, "just" us.',), '"Was it a friend?'),
        (('We saw the fireworks, "just" us.', '"Was it a friend?'), "Yes."),
        (("I hear a noise.",), "The cat?"),
    ]
    assert [example.thread for example in examples] == ["hit:0_conv:1", "hit:0_conv:1", "hit:1_conv:2"]
    assert reading.without_reply == 1
    with pytest.raises(InputError, match="file:1: 2 fields; a row has 8, and _comma_ for a comma in them"):
        run(read_empathetic, "Hello, you\n")


def test_multiwoz_by_name_and_as_a_list_gives_the_systems_messages(run):
    examples = run(read_multiwoz, json.dumps(WOZ), MultiwozSettings(), "data.json")
    assert [(example.context, example.response) for example in examples] == [
        (("I need a taxi.",), "When?"),
        (("I need a taxi.", "When?", "After 17:15."), "Booked."),
        (("A hotel?",), "Which area?"),
    ]
    assert [example.thread for example in examples] == ["SNG0073.json", "SNG0073.json", "MUL1.json"]
    listed = run(read_multiwoz, json.dumps(SGD), MultiwozSettings(), "dialogues_001.json")
    assert [example.response for example in listed] == ["Where?", "Done."]
    assert {example.thread for example in listed} == {"1_00000"}
    assert len(run(read_multiwoz, json.dumps(SGD), MultiwozSettings(respond="all"))) == 3


def test_the_parts_of_multiwoz_are_the_published_ones_where_they_are_named(tmp_path):
    for name in ("valid", "test"):
        (tmp_path / name).write_text(f"{name}1.json\n{name}2.json\n")
    settings = MultiwozSettings(valid_list=str(tmp_path / "valid"), test_list=str(tmp_path / "test"))
    parts = [split_by_lists(f"{name}.json", settings) for name in ("valid1", "test2", "other")]
    assert parts == ["valid", "test", "train"]
    threads = [f"{number}.json" for number in range(200)]
    assert {split_by_lists(thread, MultiwozSettings()) for thread in threads} == {"train", "valid", "test"}
    with pytest.raises(InputError, match="test_list is nowhere, which is not a file"):
        MultiwozSettings(test_list="nowhere")


@pytest.mark.parametrize(("content", "reason"), [
    ({"a": 1}, "no dialogue; data.json of MultiWOZ or an array of them is read"),
    ([{"turns": "none"}], "file:1: dialogue 1: no turns; an object with dialogue_id and turns is read"),
    ([{"turns": [{"speaker": "USER"}]}], r"dialogue 1: turns\[0\].utterance is null; a text is read"),
    ({"A.json": {"log": [{"text": 3}]}}, r"dialogue 1: log\[0\].text is 3; a text is read"),
])  # fmt: skip
def test_what_is_no_dialogue_of_multiwoz_is_told(run, content, reason):
    with pytest.raises(InputError, match=reason):
        run(read_multiwoz, json.dumps(content), MultiwozSettings())


def test_open_assistants_trees_are_read_branch_by_branch(run):
    german = tree(message("g", "Wie geht es?", "prompter", message("h", "Gut.", "assistant"), lang="de"))
    reading = Reading()
    content = gzip.compress((TREE + german).encode())
    examples = run(read_open_assistant, content, OpenAssistantSettings(), "2023_oasst_ready.trees.jsonl.gz", reading)
    assert [(example.id, example.context, example.response) for example in examples] == [
        ("b", ("How do I bake bread?",), "Mix flour."),
        ("d", ("How do I bake bread?", "Mix flour.", "How long?"), "An hour."),
        ("e", ("How do I bake bread?",), "Buy some."),
    ]
    assert {example.thread for example in examples} == {"a"}
    assert reading.dropped == {"trees in other languages": 1, "deleted and blank messages, with their replies": 1}
    assert len(run(read_open_assistant, german, OpenAssistantSettings(language=""))) == 1


def test_a_list_of_open_assistants_messages_is_refused(run):
    flat = json.dumps({"message_id": "a", "parent_id": None, "text": "Hi", "role": "prompter"}) + "\n"
    with pytest.raises(InputError, match=r"no prompt; a tree of messages is read \(\*.trees.jsonl\), not a list"):
        run(read_open_assistant, flat, OpenAssistantSettings())


def test_a_deep_tree_is_read(run):
    node = message("m0", "end", "assistant")
    for depth in range(1, 120):
        node = message(f"m{depth}", f"text {depth}", ("assistant", "prompter")[depth % 2], node)
    examples = run(read_open_assistant, tree(node), OpenAssistantSettings())
    assert len(examples) == 60
    assert examples[-1].response == "end"
