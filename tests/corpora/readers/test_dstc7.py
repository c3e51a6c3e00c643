"""DSTC7 track 1, in files of the form that the task describes."""

import json

import pytest

from rejoinder.corpora.splits import content_thread
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.dialogues.dstc7 import Dstc7Settings, read_dstc7
from rejoinder.errors import InputError


def option(number, text=None):
    return {"candidate-id": number, "utterance": text or f"candidate {number}"}


def dialogue(part="train", *, messages=3, candidates=100, right=("C7",), name=1100001):
    options = [option(f"C{number}") for number in range(candidates)]
    said = [{"speaker": f"participant_{1 + n % 2}", "utterance": f"message {n}"} for n in range(messages)]
    chosen = [each for each in options if each["candidate-id"] in right]
    return {"data-split": part, "example-id": name, "messages-so-far": said, "options-for-correct-answers": chosen,
            "options-for-next": options, "scenario": 1}  # fmt: skip


@pytest.fixture
def read(tmp_path):
    def run(records, reading=None, **chosen):
        path = tmp_path / "ubuntu.json"
        path.write_text(records if isinstance(records, str) else json.dumps(records, indent=4))
        return list(read_dstc7(path, reading or Reading(), Dstc7Settings(**chosen)))

    return run


def test_every_utterance_of_training_is_a_response(read):
    examples = read([dialogue()])
    assert [(example.context, example.response) for example in examples] == [
        (("message 0",), "message 1"),
        (("message 0", "message 1"), "message 2"),
        (("message 0", "message 1", "message 2"), "candidate C7"),
    ]
    assert {(example.candidates, example.label) for example in examples} == {((), None)}
    assert [example.id for example in examples] == ["1100001:1", "1100001:2", "1100001:3"]
    assert {example.thread for example in examples} == {content_thread(["message 0", "message 1"])}


def test_other_parts_keep_their_candidates(read):
    (example,) = read([dialogue("dev")])
    assert example.context == ("message 0", "message 1", "message 2")
    assert (example.response, example.label, len(example.candidates)) == ("candidate C7", 7, 100)
    assert (example.id, example.source) == ("1100001", "dstc7")


def test_the_users_part_or_else_the_files_own_decides(read):
    for part, split, count in (("train", None, 3), ("dev", None, 1), ("train", "test", 1), ("dev", "train", 3)):
        assert len(read([dialogue(part)], Reading(part=split))) == count


def test_other_right_answers_are_not_wrong_ones(read):
    (example,) = read([dialogue("dev", right=("C2", "C7", "C90"))])
    assert (example.response, len(example.candidates)) == ("candidate C2", 98)
    assert example.candidates[example.label] == "candidate C2"
    assert not {"candidate C7", "candidate C90"} & set(example.candidates)


@pytest.mark.parametrize("right", [[], [option("NONE", "None")], [option("elsewhere")]])
def test_dialogues_without_a_right_candidate_are_dropped(read, right):
    record = dialogue("dev")
    record["options-for-correct-answers"] = right
    reading = Reading()
    assert read([record, dialogue("dev")], reading)[0].response == "candidate C7"
    assert reading.dropped == {"dialogues without a right candidate": 1}


def test_answers_of_the_test_set_come_from_their_file(read, tmp_path):
    records = [dialogue("test", name=number) for number in (1, 2, 3)]
    for record in records:
        del record["options-for-correct-answers"]
    answers = tmp_path / "ubuntu_responses.tsv"
    answers.write_text("1\tC5\tcandidate C5\n2\tC9,C8\n3\tNONE\n")
    reading = Reading()
    first, second = read(records, reading, answers=str(answers))
    assert (first.response, first.label) == ("candidate C5", 5)
    assert (second.response, len(second.candidates)) == ("candidate C9", 99)
    assert reading.dropped == {"dialogues without a right candidate": 1}
    with pytest.raises(InputError, match=r"json:1: dialogue 1: example 1 has no answer; .* --set answers=FILE"):
        read(records)
    answers.write_text("1 C5\n")
    with pytest.raises(InputError, match=r"ubuntu_responses\.tsv:1: no answer; a line is an example id, a tab"):
        read(records, answers=str(answers))
    with pytest.raises(InputError, match=r"answers is nowhere\.tsv, which is not a file"):
        Dstc7Settings(answers="nowhere.tsv")


@pytest.mark.parametrize(("change", "reason"), [
    ({"messages-so-far": None}, "messages-so-far is missing or no list of objects"),
    ({"messages-so-far": [{"speaker": "a"}]}, r"messages-so-far\[0\]\.utterance is null; a text is read"),
    ({"messages-so-far": [{"speaker": "a", "utterance": " "}]}, "messages-so-far is blank"),
    ({"example-id": None}, "example-id is missing"),
    ({"options-for-next": ["a", "b"]}, "options-for-next is missing or no list of objects"),
    ({"options-for-next": [option("C7")]}, "1 candidates in options-for-next; 2 or more are read"),
    ({"options-for-next": [{"utterance": "a"}] * 2}, r"options-for-next\[0\]\.candidate-id is missing"),
    ({"options-for-correct-answers": "C7"}, "options-for-correct-answers is missing or no list of objects"),
])  # fmt: skip
def test_bad_dialogues_have_line_and_number_and_can_be_skipped(read, change, reason):
    records = [dialogue("dev"), {**dialogue("dev"), **change}, dialogue("dev")]
    with pytest.raises(InputError, match=rf"ubuntu\.json:2: dialogue 2: .*{reason}"):
        read(records)
    reading = Reading(skip_bad=True)
    assert len(read(records, reading)) == 2
    assert (reading.lines, reading.bad_lines) == (3, 1)


@pytest.mark.parametrize(("text", "reason"), [
    ('{"example-id": 1}', ":1: no dialogue; a JSON array of dialogues is read"),
    ("[]", ":1: no dialogue"),
    ("[1, 2]", ":1: dialogue 1: it is not a JSON object"),
    ("[" + json.dumps(dialogue()), ": not JSON, or cut off, after 1 objects"),
])  # fmt: skip
def test_what_is_no_array_of_dialogues_is_refused(read, text, reason):
    with pytest.raises(InputError, match=rf"ubuntu\.json{reason}"):
        read(text)
