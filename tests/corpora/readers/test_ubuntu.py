"""The Ubuntu Dialogue Corpus, in files as its scripts write them."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.pipeline.build import build_data
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.pairs.ubuntu import UbuntuSettings, read_ubuntu, split_turns
from rejoinder.errors import InputError

CONTEXT = 'anyone know why "ls" fails? __eou__ it says, no such file __eou__ __eot__ which dir? __eou__ __eot__ '
TRAIN = [
    ["Context", "Utterance", "Label"],
    [CONTEXT, "/home __eou__ i think __eou__", "1.0"],
    [CONTEXT, "buy a mac __eou__", "0.0"],
    ["hi __eou__ __eot__ ", "hello __eou__", "1"],
]
WIDE = [
    ["Context", "Ground Truth Utterance", *(f"Distractor_{number}" for number in range(9))],
    [CONTEXT, "/home __eou__", *(f"no {number} __eou__ really __eou__" for number in range(9))],
    ["hi __eou__ __eot__ ", "hello __eou__", *(f"bye {number} __eou__" for number in range(9))],
]
UTTERANCE = st.text("ab _", min_size=1).filter(str.strip)


def text_of(rows):
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


@pytest.fixture
def read(tmp_path):
    def run(rows, reading=None):
        path = tmp_path / "train.csv"
        path.write_text(rows if isinstance(rows, str) else text_of(rows), encoding="utf-8", newline="")
        return list(read_ubuntu(path, reading or Reading(), UbuntuSettings()))

    return run


def test_consecutive_pairs(tmp_path):
    """Every message with those before it, of training rows and of lists; a longer row repeats what came before."""
    longer = [f"{CONTEXT}{TRAIN[1][1]} __eot__ ", "thanks __eou__", "1"]
    for rows, first in (([*TRAIN, longer], 2), (WIDE, 2)):
        path = tmp_path / "rows.csv"
        path.write_text(text_of(rows), encoding="utf-8", newline="")
        found = list(read_ubuntu(path, Reading(history=0), UbuntuSettings(pairs=True)))
        pairs = [(example.context[-1], example.response) for example in found]
        question, which = 'anyone know why "ls" fails? it says, no such file', "which dir?"
        assert pairs[:first] == [(question, which), (which, rows[1][1].replace(" __eou__", ""))]
        assert ("hi", "hello") in pairs
        assert all(not example.candidates and len(example.context) == 1 for example in found)
    path.write_text(text_of([*TRAIN, longer]), encoding="utf-8", newline="")
    account = build_data("ubuntu", [f"train={path}"], tmp_path / "data", settings=UbuntuSettings(pairs=True))
    assert account.splits["train"].dropped == {"duplicate": 2}


def test_training_rows_of_label_1_are_examples(read):
    reading = Reading()
    first, second = read(TRAIN, reading)
    assert first.context == ('anyone know why "ls" fails? it says, no such file', "which dir?")
    assert (first.response, first.candidates, first.label) == ("/home i think", (), None)
    assert (first.id, first.source) == ("train:2", "ubuntu")
    assert (second.context, second.response) == (("hi",), "hello")
    assert reading.dropped == {"responses drawn at random (label 0)": 1}
    assert (reading.lines, reading.bad_lines, reading.blank_messages) == (3, 0, 0)


def test_v2_validation_rows_keep_their_candidates(read):
    first, second = read(WIDE)
    assert first.candidates == ("/home", *(f"no {number} really" for number in range(9)))
    assert (first.label, first.response) == (0, "/home")
    assert second.candidates[second.label] == second.response == "hello"


@settings(max_examples=60)
@given(st.lists(st.lists(UTTERANCE, min_size=1, max_size=3), min_size=1, max_size=5))
def test_turns_come_back_as_the_script_wrote_them(turns):
    text = "".join("".join(f"{utterance} __eou__ " for utterance in turn) + " __eot__ " for turn in turns)
    assert split_turns(text) == [" ".join(utterance.strip() for utterance in turn) for turn in turns]


@pytest.mark.parametrize(("row", "reason"), [
    (["a", "b"], "2 columns instead of 3, which the header has"),
    (["a", "b", "yes"], "the label is 'yes'; it is 1 or 0"),
])  # fmt: skip
def test_bad_rows_have_their_line_and_can_be_skipped(read, row, reason):
    with pytest.raises(InputError, match=f"train.csv:2: {reason}"):
        read([TRAIN[0], row])
    reading = Reading(skip_bad=True)
    read([TRAIN[0], row], reading)
    assert reading.bad_lines == 1
