"""Every function that takes a text, and every reader of files, in time linear in the text's length."""

import json

import pytest

from rejoinder.corpora.keys import text_key, words_of
from rejoinder.corpora.schema import Candidate
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers import wikipedia, wikitext
from rejoinder.corpora.readers.bots import rasa
from rejoinder.corpora.readers.form import Markup
from rejoinder.corpora.readers.answers.pages.headings import SectionReader
from rejoinder.corpora.readers.answers.question_cells import itemized_questions
from rejoinder.corpora.readers.answers.texts.faq_signs import is_faq
from rejoinder.corpora.readers.answers.texts.marks import mark_of
from rejoinder.corpora.readers.answers.texts.written import faq_of_lines
from rejoinder.html_text import parse_html, text_of_html
from rejoinder.corpora.readers.times import parse_time
from rejoinder.corpora.readers.chat_apps.slack import clean_slack_text
from rejoinder.corpora.readers.chat_apps.whatsapp import whatsapp_line
from rejoinder.corpora.readers.pairs.opensubtitles import clean_line
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.corpora.redaction import redact
from rejoinder.corpora.registry.chats import ChatsSettings, name_cleaner, read_chats
from rejoinder.corpora.forms.columns import fold
from rejoinder.corpora.forms.delimited import find_delimiter, named_delimiter
from rejoinder.corpora.sent_replies import ReplyMatcher
from rejoinder.errors import InputError
from rejoinder.text.mails.quotes import newest_text
from rejoinder.retrieval.encoding.views import view_texts
from rejoinder.curation.forms import mask
from rejoinder.curation.frames import Frames, pieces
from rejoinder.curation.placeholders import with_placeholders
from rejoinder.retrieval.encoding import templates
from rejoinder.text import ngrams, subwords
from rejoinder.text.tokens import tokens
from rejoinder.text.courtesy import asks
from rejoinder.text.mails.cleaning import clean_mail, own_text
from rejoinder.text.messages import read_message
from rejoinder.text.polarity import opposed
from rejoinder.text.sentences.frames import without_frame
from rejoinder.text.words.spelling import Speller
from tests.adversary import COMMON, LONG, check_linear, limit, seconds, texts, timed

SUBWORDS = subwords.Subwords([subwords.MARK, "a", "aa", "ab", "the", "0", "00"])


def _matched(text):
    replies = [(0, Candidate(text)), (1, Candidate("a b {x} " * 100)), (2, Candidate(f"{text} y"))]
    return ReplyMatcher(replies).find(f"{text} x")


def _faq(text):
    lines = text.splitlines()
    return is_faq(lines), list(faq_of_lines(lines, "a", Reading()))


def _page(text):
    return list(SectionReader("a", Reading()).replies(parse_html(text)))


def _wikitext(text):
    try:
        return wikitext.paragraphs(text)
    except wikitext.NestingError:
        return []


FUNCTIONS = {
    "plain": templates.plain,
    "mask": mask,
    "pieces": pieces,
    "placeholders": lambda text: with_placeholders(text, [f"{text} x", text]),
    "frames": lambda text: Frames([text]),
    "sentences": lambda text: view_texts(Candidate(text)),
    "matched": _matched,
    "redact": redact,
    "names": name_cleaner(["Dan Support", "a", "Le a", "a" * 90, "x y z", "<a", "@bob"]),
    "html": text_of_html,
    "markup": Markup("texts").look,
    "time": parse_time,
    "whatsapp": whatsapp_line,
    "whatsapp text": lambda text: whatsapp_line(f"31/12/20, 23:59 - {text}"),
    "whatsapp half": lambda text: whatsapp_line(f"31/12/20, 11:59 {text} - Dan: x"),
    "delimiter of Excel": named_delimiter,
    "slack": lambda text: clean_slack_text(text, {}),
    "mail": newest_text,
    "own text of a mail": own_text,
    "message": read_message.__wrapped__,
    "frame": without_frame,
    "courtesy": asks,
    "polarity": lambda text: opposed(text, [f"not {text}"]),
    "spelling": Speller(["where is my order"]).correct,
    "marks": mark_of,
    "FAQ": _faq,
    "FAQ of paragraphs": lambda text: _faq(f"FAQ\n\n{text}\n\nHow do I?\n{text}\n\nHow do we?\n{text}"),
    "items": itemized_questions,
    "rasa": lambda text: rasa._example_texts([text]),
    "subtitles": clean_line,
    "wikitext": _wikitext,
    "wikipedia": wikipedia.sentences,
    "column": fold,
    "delimiter": lambda text: find_delimiter(text.splitlines()),
    "key": text_key,
    "words": words_of,
    "tokens": tokens,
    "subwords": SUBWORDS.encode,
    "n-grams": ngrams.words_of,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_take_texts(name):
    check_linear(FUNCTIONS[name], lambda length: texts(COMMON, length, pairs=False))


# What was seen to take seconds, each with what it was put into.
SEEN = {
    "blanks after a placeholder": (templates.plain, "{a}" + " " * 19_900 + "x"),
    "brackets": (templates.plain, "[" * 19_000),
    "a greeting and blanks": (templates.plain, "{a}hi" + " " * 19_900 + "?"),
    "comments that do not end": (templates.plain, "</" + "<!--" * 5_000),
    "hexadecimal digits": (redact, "0123456789abcdef" * 1_250),
    "lines of a mail": (clean_mail, "a\n" * 25_000),
    "closings of a mail": (clean_mail, "a\n" + "Thanks\n" * 7_000 + "?"),
    "quoted mails": (newest_text, "Le a " * 20_000),
    "introductions of quoted mails": (newest_text, "2024 9:00 <a@b.de> x\nx:\n" * 20_000),
    "marks of an FAQ": (_faq, "Q: a\nA: b\nQ: c\nA: d\nQ: e\n" + "A: x\nQ: y\n" * 5_000 + "more\n" * 20_000),
    "questions of an FAQ": (_faq, "FAQ\n\n" + "How do I pay?\nb\n" * 10_000 + "\nHow do I?\n" * 5_000),
    "titles of an FAQ": (_faq, "Terms\n\n" * 10_000 + "How do I?\nb\n\n" * 2 + "Terms\n\n" * 10_000),
    "bold questions of a page": (_page, f"<h1>FAQ</h1><p>{'<b>x?</b>' * 6_000}</p>"),
    "tables of a page": (_page, "<table><tr><th>Q<th>A</tr><tr><td rowspan=99999>a<td>b" * 3_000),
    "quotes of a mail, each introduced": (own_text, "a\na:\n\n> b\n" * 5_000),
    "markers of a mail": (newest_text, "--- a ---\n" * 20_000),
    "the same words again": (_matched, "{%a%}script" * 416),
}


@pytest.mark.parametrize("name", SEEN)
def test_texts_that_were_seen_to_take_seconds(name):
    function, text = SEEN[name]
    taken, most = timed(lambda: function(text))
    assert taken < most


MAIL = "From: a@b.de\nDate: Mon, 1 Jan 2024 10:00:00 +0000\nSubject: x\n"
FILES = {
    ".txt": ["{}", "hello\n{}"],
    ".md": ["{}", "# q\n{}\n"],
    ".html": ["{}", "<h1>q?</h1>{}"],
    ".qna": ["## ? {}", "## ? q\n- {}\n```\na\n```", "## ? q\n```\n{}\n```"],
    ".ld.html": ['<script type="application/ld+json">{}</script>', '<script type="application/ld+json">["FAQPage", {}'],
    ".faq.txt": ["FAQ\n\nQ: a?\nA: {}\n\nQ. b?\nA. c\n", "Q) {}\nA) b\n", "FAQ\n\n{}?\nb\n\nc?\nd\n", "How do I {}?\nb\nc?\nd\n"],
    ".faq.md": ["## a\n\nQ: {0}\nA: b\n\n## c\n\n| Q | A |\n|---|---|\n| {0} | b |\n", "How do I?\n\n{}\n\nHow do we?\n\nb\n"],
    ".faq.html": ["<table><tr><th>Q<th>A</tr><tr><td rowspan=9>{0}<td>b</tr><tr><td>{0}</tr></table>"],
    ".faq.yml": ["- answer: a\n  examples: |\n    - {}\n", "a:\n  - question: {}\n    answer: b\n"],
    ".faq.csv": ["Message,Suggested reply\na,{}\n"],
    ".faq.json": ['{{"a?": {json}, "b?": "c"}}', '{{"a": [{{"q": {json}, "a": "b"}}]}}'],
    ".yml": ["{}", "nlu:\n- {}", "responses:\n  a:\n  - text: {}\n"],
    ".csv": ["{}", "text\n{}\n", 'question,answer\na,"{}"\n'],
    ".json": ["{}", '[{{"text": {json}}}]'],
    ".jsonl": ["{}", '{{"text": {json}}}\n'],
    ".eml": [
        f"{MAIL}\n{{}}\n",
        "From: a@b.de\nSubject: {}\nDate: x\n\nhello\n",
        "From: {}\nSubject: x\nDate: x\n\nhello\n",
        "From: a@b.de\nSubject: x\nDate: {}\n\nhello\n",
        f"{MAIL}References: {{}}\n\nhello\n",
        f"{MAIL}Content-Type: {{}}\n\nhello\n",
        f"{MAIL}Content-Type: text/html\n\n{{}}\n",
    ],
    ".mbox": ["From {}\nFrom: a\nTo: b\n\n", "From a 2024\nFrom: a@b.de\nDate: x\nSubject: x\n\nh\n\nFrom {}\n"],
    ".transcript.txt": [
        "Customer: {}\nAgent: hello there\n",
        "Customer: hello there\nAgent: hello you\n{}\n",
        "{}: hello there\nAgent: hello you\n",
        "Chat 1\nCustomer: hello there\nAgent: hello you\n---\n{}\n\nAgent: hi\n",
    ],
    ".transcript.csv": ['id,transcript\n1,"Customer: hi there\nAgent: {}"\n'],
    ".conversations.json": ['[{{"messages": [{{"role": {json}, "content": {json}}}]}}]'],
    ".chat.txt": [
        "31/12/20, 23:59 - Name: {}\n",
        "31/12/20, 23:59 - {}: hi\n",
        "31/12/20, 23:59 - Dan: hi\n{}\n",
    ],
}  # fmt: skip


def _read(path):
    for function in (read_candidates, lambda path: read_chats(path, Reading(), ChatsSettings(redact=True, agent="Dan"))):
        try:
            for _ in function(path):
                pass
        except InputError:
            pass


@pytest.mark.parametrize(("suffix", "form"), [(suffix, form) for suffix, forms in FILES.items() for form in forms])
def test_files_whose_texts_are_made_against_their_readers(tmp_path, suffix, form):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(form.format("x", json='"x"').encode())
    _read(path)  # libraries are imported once
    for fragment in COMMON:
        text = (fragment * (LONG // len(fragment) + 1))[:LONG]
        path.write_bytes(form.format(text, json=json.dumps(text)).encode("utf-8", "surrogatepass"))
        most = 2 * limit()  # of replies and of chats
        took = seconds(lambda: _read(path))
        took = took if took < most else min(took, seconds(lambda: _read(path)))
        assert took < most, f"{fragment!r}: {took:.2f} s"
