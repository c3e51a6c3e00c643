"""SemEval task 3, in files of the form of 2015 and of 2016."""

import pytest

from rejoinder.corpora.splits import content_thread, split_of
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.pairs.semeval import SemevalSettings, question_text, read_semeval
from rejoinder.errors import InputError

OLD = """\
<root>

<Question QID="Q1" QCATEGORY="Socialising" QDATE="2010-01-17 15:26:30" QTYPE="GENERAL" QGOLD_YN="Not Applicable">
	<QSubject>Courier?</QSubject>
	<QBody>What is the best company &amp; why?

thanks</QBody>
	<Comment CID="Q1_C1" CUSERID="U401" CGOLD="Good" CGOLD_YN="Not Applicable">
		<CSubject>RE: Courier?</CSubject>
		<CBody>try ARAMEX </CBody>
	</Comment>
	<Comment CID="Q1_C2" CUSERID="U274" CGOLD="Dialogue" CGOLD_YN="Not Applicable">
		<CSubject>lol</CSubject>
		<CBody>same as &lt;b&gt;you&lt;/b&gt;</CBody>
	</Comment>
	<Comment CID="Q1_C3" CUSERID="U275" CGOLD="Good" CGOLD_YN="Not Applicable">
		<CSubject>DHL</CSubject>
		<CBody>DHL</CBody>
	</Comment>
</Question>

</root>
"""
HEAD = """\
<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE xml [
<!ELEMENT xml (OrgQuestion*)>
<!ATTLIST xml
version CDATA #REQUIRED
>
<!ELEMENT OrgQuestion (OrgQSubject, OrgQBody, Thread)>
]>
<xml version="1.0">
"""


def thread(name, comments, *, skip="", body="Which one?"):
    marked = f' SubtaskA_Skip_Because_Same_As_RelQuestion_ID="{skip}"' if skip else ""
    rows = "".join(
        f'<RelComment RELC_ID="{name}_C{number}" RELC_RELEVANCE2ORGQ="Good" RELC_RELEVANCE2RELQ="{label}">'
        f"<RelCText>{text}</RelCText></RelComment>\n"
        for number, (label, text) in enumerate(comments, 1)
    )
    return (
        '<OrgQuestion ORGQ_ID="Q1"><OrgQSubject>not</OrgQSubject><OrgQBody>read</OrgQBody>'
        f'<Thread THREAD_SEQUENCE="{name}"{marked}><RelQuestion RELQ_ID="{name}" RELQ_RELEVANCE2ORGQ="Relevant">'
        f"<RelQSubject>Banks {name}</RelQSubject><RelQBody>{body}</RelQBody></RelQuestion>\n{rows}"
        "</Thread></OrgQuestion>\n"
    )


COMMENTS = [("Good", "the first"), ("Bad", "no"), ("PotentiallyUseful", "maybe"), ("Good", "the second")]
NEW = HEAD + thread("Q1_R4", COMMENTS) + thread("Q1_R5", COMMENTS[1:3]) + "</xml>"


@pytest.fixture
def read(tmp_path):
    def run(text, reading=None, **chosen):
        path = tmp_path / "dev.xml"
        path.write_text(text, encoding="utf-8")
        return list(read_semeval(path, reading or Reading(part="train"), SemevalSettings(**chosen)))

    return run


def test_2015(read):
    reading = Reading(part="train")
    first, second = read(OLD, reading)
    question = "Courier?\nWhat is the best company & why?\n\nthanks"
    assert (first.context, first.response, second.response) == ((question,), "try ARAMEX", "DHL")
    assert (first.id, first.source, first.thread) == ("dev:Q1_C1", "semeval", content_thread([question]))
    assert reading.dropped == {"comments not labelled Good": 1}


def test_2016(read):
    reading = Reading(part="train")
    first, second = read(NEW, reading)
    assert (first.context, first.response) == (("Banks Q1_R4\nWhich one?",), "the first")
    assert (second.id, second.response) == ("dev:Q1_R4_C4", "the second")
    assert (reading.lines, reading.dropped) == (2, {"comments not labelled Good": 4})


def test_2015_reformatted_has_threads_without_an_original_question(read):
    body = thread("Q5", COMMENTS).split("</OrgQBody>")[1].replace("</OrgQuestion>", "")
    multiline = body.replace("</RelCText>", "</RelCText><RelCClean>x // y</RelCClean>").replace("RelCText", "RelCBody")
    for text in (body, multiline):
        assert [each.response for each in read(f"<xml>{text}</xml>")] == ["the first", "the second"]


def test_labels_can_come_from_a_file(read, tmp_path):
    hidden = OLD.replace('CGOLD="Good"', 'CGOLD="?"').replace('CGOLD="Dialogue"', 'CGOLD="?"')
    with pytest.raises(InputError, match=r"dev\.xml has no labels; name the file that has .* --set gold=FILE"):
        read(hidden)
    gold = tmp_path / "gold.txt"
    gold.write_text("Q1_C1\tBad\nQ1_C3\tGood\n")
    reading = Reading(part="train")
    assert [each.response for each in read(hidden, reading, gold=str(gold))] == ["DHL"]
    assert reading.dropped == {"comments not labelled Good": 1, "comments without a label": 1}
    gold.write_text("Q1_C1 Bad\n")
    with pytest.raises(InputError, match=r"gold\.txt:1: no label; a line is the id"):
        read(hidden, gold=str(gold))
    with pytest.raises(InputError, match=r"gold is nowhere\.txt, which is not a file"):
        SemevalSettings(gold="nowhere.txt")


@pytest.mark.parametrize(("subject", "body", "text"), [
    ("Best bank?", "I need one.", "Best bank?\nI need one."),
    ("Best  bank", "best bank\n in town, please", "best bank\n in town, please"),
    ("which bank...", "Which bank is best?", "Which bank is best?"),
    ("", "I need one.", "I need one."),
    ("...", "", "..."),
])  # fmt: skip
def test_subject_and_body_are_one_message(subject, body, text):
    assert question_text(subject, body) == text


def test_blank_texts_and_repeated_threads_are_dropped(read):
    text = OLD.replace("try ARAMEX", " ").replace("<CBody>DHL</CBody>", "")
    reading = Reading(part="train")
    assert read(text, reading) == []
    assert reading.dropped == {"blank comments": 2, "comments not labelled Good": 1}
    reading, blank = Reading(part="train"), thread("Q1_R1", COMMENTS, body="").replace("Banks Q1_R1", "")
    assert read(f"<xml>{blank}{thread('Q1_R4', COMMENTS, skip='Q9_R9')}</xml>", reading) == []
    assert reading.dropped == {"comments of blank questions": 4, "comments of repeated questions": 4}


def test_xml_without_questions_is_named_as_such(read):
    with pytest.raises(InputError, match=r"dev\.xml has no <Question> or <Thread>, .*check that it is a file of task 3"):
        read("<mediawiki><page><title>Bank</title></page></mediawiki>")


def test_only_in_training_a_question_may_be_there_twice(read):
    (own,) = {each.thread for each in read(NEW)}
    assert len(read(NEW, Reading(part="test"))) == len(read(NEW, Reading(part="valid"))) == 1
    assert len(read(NEW, Reading())) == (2 if split_of(own) == "train" else 1)
    assert len(read(NEW, Reading(part="test"), answers="all")) == 2
    reading = Reading(part="test")
    (first,) = read(NEW, reading)
    assert first.response == "the first"
    assert reading.dropped["Good comments after the first"] == 1
