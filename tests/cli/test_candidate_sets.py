"""Sets with candidates, from the publisher's files to figures: `rejoinder data` and `rejoinder evaluate bm25`."""

from __future__ import annotations

import csv
import json

import pytest

from rejoinder.corpora.examples import read_examples

FRUITS = ["apple", "banana", "cherry", "damson", "elder", "fig", "grape", "hazel", "ilama", "jujube", "kiwi", "lemon"]


@pytest.fixture
def ranked(answer, tmp_path):
    """Build a data folder, then rank its test part with BM25: the account and the result."""

    def run(source, *inputs):
        account = answer("data", source, *inputs, "-o", tmp_path / "data")
        (result,) = answer("evaluate", "bm25", tmp_path / "data")["results"]
        return account, result

    return run


def check(result, *, examples, candidates):
    """Every question names the fruit of its answer, and of no other, so a ranker of words finds it."""
    assert (result["examples"], result["candidates"], result["recall"]["1"]["value"]) == (examples, candidates, 1.0)


def test_ubuntu(ranked, tmp_path):
    with (tmp_path / "train.csv").open("w", newline="") as file:
        rows = ([f"buy {fruit} ? __eou__ __eot__ ", f"no {fruit} __eou__", "1"] for fruit in FRUITS)
        csv.writer(file).writerows([["Context", "Utterance", "Label"], *rows])
    with (tmp_path / "test.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["Context", "Ground Truth Utterance", *(f"Distractor_{number}" for number in range(9))])
        for fruit in FRUITS:
            others = [f"take {each} __eou__" for each in FRUITS if each != fruit][:9]
            context = f"hello __eou__ __eot__ where is {fruit} ? __eou__ __eot__ "
            table.writerow([context, f"here , {fruit} __eou__", *others])
    account, result = ranked("ubuntu", f"train={tmp_path / 'train.csv'}", f"test={tmp_path / 'test.csv'}")
    check(result, examples=12, candidates=10)
    assert [account["splits"][split]["kept"] for split in ("train", "valid", "test")] == [12, 0, 12]
    assert not any(example.candidates for example in read_examples(tmp_path / "data", "train"))


def test_dstc7(ranked, tmp_path):
    options = [{"candidate-id": fruit[:2], "utterance": f"try {fruit}"} for fruit in FRUITS]

    def dialogue(fruit, **more):
        said = [{"speaker": "participant_1", "utterance": text} for text in ("hi", f"any {fruit} ?")]
        return {"example-id": FRUITS.index(fruit), "messages-so-far": said, "options-for-next": options, **more}

    train = [dialogue(fruit, **{"data-split": "train", "options-for-correct-answers": options[:1]}) for fruit in FRUITS]
    (tmp_path / "train.json").write_text(json.dumps(train))
    (tmp_path / "test.json").write_text(json.dumps([dialogue(fruit, **{"data-split": "test"}) for fruit in FRUITS]))
    (tmp_path / "test.tsv").write_text("".join(f"{n}\t{fruit[:2]}\ttry {fruit}\n" for n, fruit in enumerate(FRUITS)))
    account, result = ranked(
        "dstc7",
        f"train={tmp_path / 'train.json'}",
        f"test={tmp_path / 'test.json'}",
        "--set",
        f"answers={tmp_path / 'test.tsv'}",
    )
    check(result, examples=12, candidates=12)
    assert account["splits"]["train"]["kept"] == 24


def test_convai2_draws_candidates_and_says_so(ranked, tmp_path):
    lines = (f"1 your persona: i am one.\n2 do you like {fruit} ?\ti love {fruit}\n" for fruit in FRUITS)
    (tmp_path / "valid.txt").write_text("".join(lines))
    account, result = ranked("convai2", f"test={tmp_path / 'valid.txt'}", "--set", "draw=9")
    check(result, examples=12, candidates=10)
    assert any("9 for each example were drawn from its other dialogues" in note for note in account["notes"])


def test_semeval_has_each_question_once_in_the_test_part(ranked, tmp_path):
    threads = "".join(
        f'<Question QID="Q{n}"><QSubject>Any {fruit}?</QSubject><QBody></QBody>'
        f'<Comment CID="Q{n}_C1" CGOLD="Bad"><CBody>no idea</CBody></Comment>'
        f'<Comment CID="Q{n}_C2" CGOLD="Good"><CBody>plenty of {fruit}</CBody></Comment>'
        f'<Comment CID="Q{n}_C3" CGOLD="Good"><CBody>some {fruit} there</CBody></Comment></Question>\n'
        for n, fruit in enumerate(FRUITS)
    )
    (tmp_path / "dev.xml").write_text(f"<root>{threads}</root>")
    account, result = ranked("semeval", f"test={tmp_path / 'dev.xml'}", "--set", "candidates=thread")
    check(result, examples=12, candidates=2)
    assert account["dropped"] == {"comments not labelled Good": 12, "Good comments after the first": 12}
