"""FAQs: several questions an answer, in lines and in rows; what is held out; what the candidates are."""

import csv
import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.corpora.corpus import split_by_shares
from rejoinder.corpora.splits import content_thread, split_of
from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.sources import read_settings
from rejoinder.corpora.readers.answers.question_cells import join_questions, split_questions
from rejoinder.corpora.readers.answers.table import NO_REPLY
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.corpora.registry.faq import FAQ, FaqSettings, read_faq
from rejoinder.errors import InputError
from rejoinder.evaluation.ranking import evaluate, evaluate_task
from rejoinder.evaluation.tasks import ranking_task

CARD, PIN = "You find it in your letter box.", "Ask for a new one, at any time."
PAIRS = [("Where is my card?", CARD), ("Card?", CARD), ("I forgot my PIN", PIN), ("no card, yet", CARD)]


@pytest.fixture
def read(tmp_path):
    def run(text, name="faq.jsonl", reading=None, **options):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return list(read_faq(path, reading or Reading(), FaqSettings(**options)))

    return run


def lines(*records):
    return "".join(f"{json.dumps(record)}\n" for record in records)


FORMS = {
    "lists.jsonl": lines(
        {"questions": ["Where is my card?", "Card?"], "answer": CARD},
        {"question": "I forgot my PIN", "answer": PIN, "category": "cards"},
        {"question": ["no card, yet"], "answer": CARD},
    ),
    "rows.csv": f'Question,id,ANSWER\nWhere is my card?,1,{CARD}\nCard?,2,{CARD}\nI forgot my PIN,3,"{PIN}"\n'
    f'"no card, yet",4,{CARD}\n',
    "bare.csv": f'Where is my card?,{CARD}\nCard?,{CARD}\nI forgot my PIN,"{PIN}"\n"no card, yet",{CARD}\n',
}


@pytest.mark.parametrize("name", FORMS)
def test_every_question_is_an_example_and_what_stays_together(read, name):
    examples = read(FORMS[name], name)
    assert [(*example.context, example.response) for example in examples] == PAIRS
    assert {example.source for example in examples} == {"faq"}
    assert len({example.id for example in examples}) == 4
    assert [example.thread for example in examples] == [content_thread([question]) for question, _ in PAIRS]
    by_answer = [example.thread for example in read(FORMS[name], name, thread="answer")]
    assert by_answer == [content_thread([answer]) for _, answer in PAIRS]
    with pytest.raises(InputError, match="it should be 'question' or 'answer'"):
        read_settings(FAQ, ["thread=both"])


def test_other_delimiters_and_forms_of_replies_are_read(read):
    reading = Reading()
    text = f"Question;Answer\nWhere is my card?;{CARD}\nno card, yet;{CARD}\n"
    contexts = [example.context for example in read(text, "faq.csv", reading)]
    assert contexts == [("Where is my card?",), ("no card, yet",)]
    assert reading.notes[0].endswith("faq.csv: a table (semicolon, utf-8)")
    markdown = f"# FAQ\n## Where is my card?\n{CARD}\n## Cards\n{PIN}\n"
    reading = Reading()
    (example,) = read(markdown, "faq.md", reading)
    assert (example.context, example.response, example.thread) == (
        ("Where is my card?",), CARD, content_thread(["Where is my card?"]))  # fmt: skip
    assert reading.dropped == {"replies without a question": 1}


@pytest.mark.parametrize(("name", "text"), [
    ("faq.csv", f"answer,question,topic\n{CARD},Card?,a\n\"{PIN}\",,b\n"),
    ("faq.jsonl", lines({"question": "Card?", "answer": CARD}, {"questions": [], "answer": PIN})),
    ("faq.jsonl", lines({"question": "", "answer": PIN}, {"question": "Card?", "answer": CARD})),
])  # fmt: skip
def test_an_answer_that_nobody_asks_for_is_counted(read, name, text):
    reading = Reading()
    (example,) = read(text, name, reading)
    assert (example.context, example.response) == (("Card?",), CARD)
    assert reading.dropped == {"replies without a question": 1}


def test_rows_without_an_answer_or_not_in_use_are_counted(read):
    reading = Reading()
    text = f"question,answer,status\nCard?,{CARD},\nPIN?, ,\nWhere?,Gone.,draft\nno card,{CARD},live\n"
    examples = read(text, "faq.csv", reading)
    assert [example.context for example in examples] == [("Card?",), ("no card",)]
    assert reading.dropped == {NO_REPLY: 1, "inactive or unapproved entries": 1}


@pytest.mark.parametrize(
    "header", ["Q,A", "message,reply", "Prompt,Response", "msg,reply,Owner", "Our FAQ,\nQuestion,Answer", "sep=,\nQuestion,Answer", "Sample questions,Suggested reply,Owner"]
)
def test_headers_that_people_write(read, header):
    names = header.splitlines()[-1]
    row = ",".join(["Card?", CARD, *[""] * (names.count(",") - 1)])
    assert [(*example.context, example.response) for example in read(f"{header}\n{row}\n", "faq.csv")] == [("Card?", CARD)]


@pytest.mark.parametrize("name", ["faq.csv", "faq.tsv"])
def test_tables_of_replies_are_read_alike(read, name):
    text = f'name,text,questions\nCards,{CARD},"Card?\nWhere is my card?"\nPIN,Ask us.,\nNone,,Why?\n'
    reading = Reading()
    examples = read(text if name == "faq.csv" else text.replace(",", "\t"), name, reading)
    assert [(*example.context, example.response) for example in examples] == [("Card?", CARD), ("Where is my card?", CARD)]
    assert reading.dropped == {"replies without a question": 1, NO_REPLY: 1}


@pytest.mark.parametrize(
    ("cell", "questions"),
    [
        ("Card?\nWhere is my card?", ["Card?", "Where is my card?"]),
        ("Card?|Where is my card? | ", ["Card?", "Where is my card?"]),
        ("Card? | no\nyes", ["Card? | no", "yes"]),
        ('["Card?", "\\ud83d\\ude00 | card"]', ["Card?", "\U0001f600 | card"]),
        ("['Card?', \"Where's my card?\"]", ["Card?", "Where's my card?"]),
        ("[1]", ["[1]"]),
        ("[my card", ["[my card"]),
    ],
)
def test_a_cell_holds_several_questions(read, cell, questions):
    quoted = cell.replace('"', '""')
    examples = read(f'questions,answer\n"{quoted}",{CARD}\n', "faq.csv")
    assert [example.context for example in examples] == [(question,) for question in questions]


def test_lines_of_a_cell_that_all_ask_are_questions(tmp_path):
    path = tmp_path / "a.csv"
    chosen = Choice(columns={"text": "text", "questions": "Kundenfragen"})
    for name, choice in (("question", Choice()), ("Kundenfragen", chosen)):
        for cell, wanted in (
            ("Card?\nWhere is it?", [("Card?",), ("Where is it?",)]),
            ("I lost it.\nWhere is it?", [("I lost it.\nWhere is it?",)]),
            ("- Card\n- Where is it", [("Card",), ("Where is it",)]),
        ):
            path.write_text(f'text,{name}\n{CARD},"{cell}"\n', encoding="utf-8")
            (reply,) = read_candidates(path, choice=choice)
            assert reply.examples == tuple(wanted)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "yml"])
def test_a_slip_in_the_name_of_a_column_is_noted(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    record = {"text": CARD, "titl": "Card", "exampels": "Where is my card?", "team": "a"}
    table = f"{','.join(record)}\n{','.join(record.values())}\n"
    texts = {"csv": table, "jsonl": lines(record), "yml": json.dumps([record])}  # JSON is YAML, too
    path.write_text(texts[suffix], encoding="utf-8")
    reading = Reading()
    choice = Choice(form="yaml") if suffix == "yml" else Choice()
    assert len(list(read_candidates(path, choice=choice, reading=reading))) == 1
    assert [note.partition(": ")[2] for note in reading.notes[1:]] == [
        "titl is a field of the replies; if it is their title, name the column title",
        "exampels is a field of the replies; if it is their questions, name the column examples",
    ]


@given(st.lists(st.text().map(lambda text: " ".join(text.split())).filter(bool), min_size=1))
def test_questions_that_were_written_to_a_cell_are_read_from_it(questions):
    assert [text for text in split_questions(join_questions(questions)) if text] == questions


def test_a_first_row_that_may_be_a_header_is_noted(read):
    reading = Reading()
    examples = read(f"Kundenfrage;Textbaustein\nCard?;{CARD}\n", "de.csv", reading)
    assert len(examples) == 2
    assert any("de.csv:1: an example, not a header: Kundenfrage, Textbaustein; if these are" in note for note in reading.notes)
    for header in ("Message;Out", "userUtterance;answer", "question_id,msg"):
        reading = Reading()
        read(f"{header}\nhi,hello\n".replace(";", ","), "odd.csv", reading)
        assert any("odd.csv:1: an example, not a header:" in note for note in reading.notes)
    for first in (f"Card?,{CARD}", "hi,hello", "my reply,ok"):
        reading = Reading()
        read(f"{first}\n", "faq.csv", reading)
        assert not reading.notes


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("faq.xml", "<faq><q>Card?</q></faq>"),
        ("faq.html", "<p>Nothing.</p>"),
        ("faq.txt", '{"a": 1}\nx'),
        ("faq.log", "One.\nTwo.\n"),
        ("faq.tsv", "Kundenfrage\tTextbaustein\nCard?\tHere.\n"),
        ("faq.tsv", "text\treply\tquestion\nCard?\tHere.\tWhere?\n"),
        ("faq.tsv", "text\tauthor\nCard?\tAnna\n"),
        ("faq.csv", "text,reply,question\nCard?,Here.,Where?\n"),
        ("faq.csv", "Kundenfrage;Textbaustein;Thema\nCard?;Here.;a\n"),
    ],
)
def test_errors_name_no_settings_that_faq_lacks(read, tmp_path, name, text):
    with pytest.raises(InputError) as caught:
        read(text, name)
    assert "--set" not in str(caught.value)
    with pytest.raises(InputError, match=r"--set|give the file the ending"):
        list(read_candidates(tmp_path / name))


def parts(**options):
    return Counter(split_by_shares(str(number), FaqSettings(**options)) for number in range(4096))


def test_the_shares_of_the_parts():
    threads = [str(number) for number in range(5000)]
    assert [split_by_shares(each, FaqSettings()) for each in threads] == [split_of(each) for each in threads]
    bank = parts(valid_share=0.1, test_share=0.2)
    assert bank["train"] == pytest.approx(0.7 * 4096, abs=100)
    assert bank["valid"] == pytest.approx(0.1 * 4096, abs=60)
    assert bank["test"] == pytest.approx(0.2 * 4096, abs=80)
    assert parts(valid_share=0.0, test_share=0.0) == {"train": 4096}
    assert set(parts(valid_share=0.0, test_share=0.5)) == {"train", "test"}


@pytest.mark.parametrize("shares", [(-0.1, 0.1), (0.1, -0.1), (0.5, 0.5), (float("nan"), 0.1)])
def test_impossible_shares_are_refused(shares):
    with pytest.raises(InputError, match="valid_share and test_share must be 0 or more and leave something"):
        FaqSettings(valid_share=shares[0], test_share=shares[1])


@pytest.mark.parametrize(("line", "message"), [
    ('{"question": "q"}', "question (a text), or questions (a list of texts), and answer (a text) are read"),
    ('{"frage": "q", "antwort": "a"}', "the fields are frage, antwort"),
    ('{"question": ["q", " "], "answer": "a"}', "none may be missing or blank"),
    ('{"questions": []}', "none may be missing or blank"),
    ('{"question": "q", "answer": "\\ud800"}', "answer holds half of a surrogate pair"),
])  # fmt: skip
def test_bad_lines_are_named_and_can_be_skipped(read, line, message):
    good = lines({"question": "q", "answer": "a"})
    with pytest.raises(InputError, match=rf"faq\.jsonl:3: .*{re.escape(message)}"):
        read(f"{good}\n{line}\n")
    reading = Reading(skip_bad=True)
    assert len(read(f"{good}{line}\n{good}", reading=reading)) == 2
    assert (reading.lines, reading.bad_lines) == (3, 1)


@pytest.mark.data
@pytest.mark.skipif("REJOINDER_DATA" not in os.environ, reason="REJOINDER_DATA is not set")
def test_questions_of_bank_customers(tmp_path):
    """BANKING77, with the names of its intents for answers: what copies among 100 candidates do to the figures."""
    from rejoinder.encoders.words.keywords import BM25

    with (Path(os.environ["REJOINDER_DATA"]) / "eval" / "banking77" / "train.csv").open(encoding="utf-8") as file:
        rows = [(row["text"], row["category"].replace("_", " ")) for row in csv.DictReader(file)]
    with (tmp_path / "faq.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *rows])
    examples = list(read_faq(tmp_path / "faq.csv", Reading(), FaqSettings()))
    test = [example for example in examples if split_of(example.thread) == "test"]
    assert (len(examples), len(test)) == (10_003, 983)
    by_answers = evaluate_task(BM25(), ranking_task(test, pool=(example.response for example in examples)))
    assert (by_answers.candidates, by_answers.ambiguous, round(by_answers.recall[1].value, 3)) == (77, 0, 0.295)
    of_100 = evaluate(BM25(), test)
    assert (of_100.examples, of_100.ambiguous, round(of_100.recall[1].value, 3)) == (900, 659, 0.096)
