"""Threads of mails: whatever the order of the mails, those that answer each other are one chat."""

import hypothesis
import hypothesis.strategies as st
import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.chats import ChatsSettings, read_chats

HELP = "help@shop.org"


def mail(sender, recipient, day, body, number=None, *earlier, headers=""):
    """Return a mail of an mbox file; `earlier` are the numbers of those that it refers to, oldest first."""
    own = "" if number is None else f"Message-ID: <{number}@x>\n"
    references = f"References: {' '.join(f'<{each}@x>' for each in earlier)}\n" if earlier else ""
    subject = "Re: Order" if sender == HELP else "Order"
    return (
        f"From x@y Fri Mar  1 09:00:00 2024\nFrom: {sender}\nTo: {recipient}\nSubject: {subject}\n"
        f"Date: {day:02} Mar 2024 09:00:00 +0000\n{own}{references}{headers}\n{body}\n\n"
    )


def threads(customer, first):
    """Return four mails of a customer and an agent: by references, and by In-Reply-To alone."""
    a, b, c, d = (f"{customer}{letter}" for letter in "abcd")
    person = f"{customer}@a.org"
    return [
        mail(person, HELP, first, f"Where is it, asks {customer}?", a),
        mail(HELP, person, first + 1, f"It left, {customer}.", b, a),
        mail(person, HELP, first + 2, f"Nothing came to {customer}.", c, headers=f"In-Reply-To: <{b}@x>\n"),
        mail(HELP, person, first + 3, f"Here is a refund, {customer}.", d, a, b, c),
    ]


MAILS = [*threads("ann", 1), *threads("bob", 2)]
BY_SUBJECT = [
    mail("cid@a.org", HELP, 7, "Are you open on Sundays?"),
    mail(HELP, "cid@a.org", 8, "We are, until noon."),
    mail("dan@b.org", HELP, 9, "Do you repair shoes?", 90),
    mail(HELP, "dan@b.org", 10, "We do."),
    mail("dan@b.org", HELP, 11, "What does it cost?", 91, 90),
    mail(HELP, "dan@b.org", 12, "Ten euros.", 92, 91),
]


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    path = tmp_path_factory.mktemp("mails") / "mails.mbox"

    def run(mails, reading=None):
        path.write_text("".join(mails))
        examples = read_chats(path, reading or Reading(), ChatsSettings(agent=HELP))
        return [(*example.context, example.response) for example in examples]

    return run


def test_the_newest_mail_may_stand_first(read):
    wanted = [
        ("Where is it, asks ann?", "It left, ann."),
        ("Where is it, asks ann?", "It left, ann.", "Nothing came to ann.", "Here is a refund, ann."),
    ]
    assert read(threads("ann", 1)[::-1]) == wanted


@hypothesis.given(mails=st.permutations([*MAILS, *BY_SUBJECT]))
@hypothesis.settings(max_examples=50, deadline=None)
def test_threads_do_not_depend_on_the_order_of_the_mails(read, mails):
    examples = read(mails)
    assert len(examples) == 7
    assert examples == read([*MAILS, *BY_SUBJECT])


@pytest.mark.parametrize("order", [1, -1])
def test_a_mail_that_is_left_out_still_joins_its_neighbours(read, order):
    person = "ann@a.org"
    mails = [
        mail(person, HELP, 1, "Where is it?", 1),
        mail(HELP, person, 2, "We read your mail soon.", 2, 1, headers="Auto-Submitted: auto-replied\n"),
        mail(person, HELP, 3, "It is blue.", 3, 2),
        mail(HELP, person, 4, "It left.", 4, 3),
    ]
    assert read(mails[::order]) == [("Where is it? It is blue.", "It left.")]


@pytest.mark.parametrize("order", [1, -1])
def test_of_mails_of_one_second_the_answer_comes_later(read, order):
    mails = [mail("ann@a.org", HELP, 1, "Where is it?", 2), mail(HELP, "ann@a.org", 1, "It left.", 1, 2)]
    assert read(mails[::order]) == [("Where is it?", "It left.")]


def test_a_mail_without_a_time_has_that_of_the_mail_before_it(read):
    mails = threads("ann", 1)
    mails[1] = mails[1].replace("Date: 02 Mar 2024 09:00:00 +0000\n", "")
    assert read(mails) == read(threads("ann", 1))


def test_a_mail_whose_id_was_there_before_is_left_out(read):
    reading = Reading()
    mails = threads("ann", 1)
    assert read([*mails, *mails[::-1]], reading) == read(mails)
    assert reading.dropped == {"duplicate messages": 4}


def test_mails_of_one_id_but_another_time_or_author_are_kept(read):
    reading = Reading()
    mails = [mail("ann@a.org", HELP, 1, "Where is it?", 1), mail(HELP, "ann@a.org", 2, "It left.", 1)]
    assert read([*mails, mail(HELP, "ann@a.org", 3, "On Monday.", 1)], reading) == [("Where is it?", "It left. On Monday.")]
    assert reading.dropped == {}


@pytest.mark.parametrize("headers", [
    "Auto-Submitted: auto-replied", "X-Autoreply: yes", "X-Autorespond: We read it.", "Precedence: auto_reply",
    "Precedence: Auto-Reply", "X-Autoresponder: on", "Auto-Submitted: auto-generated\nPrecedence: bulk",
])  # fmt: skip
def test_automatic_answers_are_left_out_and_counted(read, headers):
    reading = Reading()
    mails = [
        mail("ann@a.org", HELP, 1, "Where is it?", 1),
        mail(HELP, "ann@a.org", 2, "We will answer soon.", 2, 1, headers=f"{headers}\n"),
        mail(HELP, "ann@a.org", 3, "It left.", 3, 1),
    ]
    assert read(mails, reading) == [("Where is it?", "It left.")]
    assert reading.dropped == {"automatic answers": 1}


@pytest.mark.parametrize("headers", [
    "Auto-Submitted: no", "X-Autoreply: no", "Precedence: bulk", "Precedence: list", "X-Auto-Response-Suppress: All",
])  # fmt: skip
def test_headers_of_help_desks_make_no_automatic_answer(read, headers):
    mails = [
        mail("ann@a.org", HELP, 1, "Where is it?", 1),
        mail(HELP, "ann@a.org", 2, "It left.", 2, 1, headers=f"{headers}\n"),
    ]
    assert read(mails) == [("Where is it?", "It left.")]
