"""Pages whose answers open below a button, a link or a label, and definition lists."""

import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.candidates import read_candidates

WHERE = "Where is my order?"
CARD = "Can I pay by card?"
FOUND = [("", WHERE, "It takes three days.\nLook at the page."), ("", CARD, "Yes, by any card."), ("", "Returns", "Print it.")]
ANSWERS = ["<p>It takes three days.</p><p>Look at the page.</p>", "<p>Yes, by any card.</p>", "<p>Print it. <button>Print</button></p>"]
MENU = '<nav><button aria-controls="menu">Menu</button><ul id="menu"><li>Home</li></ul></nav>'
ONE = {
    "buttons that name what they open":
        '<button class="q" aria-expanded="false" aria-controls="p{number}">{question}</button><div id="p{number}" hidden>{answer}</div>',
    "buttons before what they open": '<button class="accordion">{question}</button>\n<div class="panel">{answer}</div>',
    "roles": '<div role="button" aria-controls="p{number}">{question}<span aria-hidden="true"> +</span></div>'
             '<div id="p{number}" style="display:none">{answer}</div>',
    "links of Bootstrap": '<div><div class="head"><a data-toggle="collapse" href="#p{number}">{question}</a></div>'
                          '<div id="p{number}" class="collapse">{answer}</div></div>',
    "buttons of Bootstrap": '<div><div class="head"><button data-bs-toggle="collapse" data-bs-target="#p{number}">{question}</button>'
                            '<span class="icon"></span></div><div id="p{number}">{answer}</div></div>',
    "labels": '<div><input type="checkbox" id="c{number}"><label for="c{number}">{question} \u203a</label><div>{answer}</div></div>',
    "headings": '<h3><button aria-controls="p{number}">{question}</button></h3><div id="p{number}">{answer}</div>',
}  # fmt: skip


def read(tmp_path, page):
    path = tmp_path / "faq.html"
    path.write_text(f"<html><body>{page}</body></html>", encoding="utf-8")
    replies = read_candidates(path, reading=Reading())
    return [(reply.payload.get("category", ""), reply.title, reply.text) for reply in replies]


def entries(name, questions):
    pairs = zip(questions, ANSWERS, strict=True)
    return "".join(
        ONE[name].format(number=number, question=question, answer=answer) for number, (question, answer) in enumerate(pairs)
    )


@pytest.mark.parametrize("name", ONE)
def test_an_answer_opens_below_its_question(tmp_path, name):
    page = f"{MENU}<h1>FAQ</h1>{entries(name, [WHERE, CARD, 'Returns'])}"
    assert read(tmp_path, page) == FOUND


def test_headings_above_accordions_are_categories(tmp_path):
    page = f"<h2>Orders</h2>{entries('roles', [WHERE, CARD, 'Returns'])}<h2>About</h2><p>We are a shop.</p>"
    assert read(tmp_path, page) == [*[("Orders", *found[1:]) for found in FOUND], ("", "About", "We are a shop.")]


BESIDE = {
    "buttons that ask nothing": entries("buttons before what they open", ["Shop", "Blog", "Jobs"]),
    "one button": f'<button aria-controls="x">Need help?</button><div id="x">Write to us.</div><p>{WHERE}</p>',
    "text between": "".join(f"<button>{question}</button> or <div>not</div>" for question in (WHERE, CARD)),
    "what is elsewhere": f'<div id="a">A</div><div id="b">B</div><button aria-controls="a">{WHERE}</button><div>C</div>'
                         f'<button aria-controls="b">{CARD}</button><div>D</div>',
    "nothing behind it": f"<div><button>{WHERE}</button></div><div><button>{CARD}</button></div>",
    "a name that is empty": f'<div id=""></div><button aria-controls="">{WHERE}</button><button aria-controls="#">{CARD}</button>',
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_other_buttons_are_left_out(tmp_path, name):
    page = f"<h2>Money</h2><p>We take coins.</p>{BESIDE[name]}<h2>Time</h2><p>Now.</p>"
    titles = [title for _, title, _ in read(tmp_path, page)]
    assert titles == ["Money", "Time"]


def test_terms_share_the_description_below_them(tmp_path):
    page = f"<dl><dt>Lost</dt></dl><dl><div><dt>{WHERE}</dt><dt>When does it come?</dt><dd>Soon.</dd><dd>Or not.</dd></div><dt>Returns</dt><dd>Free.</dd></dl>"
    path = tmp_path / "faq.html"
    path.write_text(page, encoding="utf-8")
    first, second = read_candidates(path, reading=Reading())
    assert (first.text, first.examples) == ("Soon.\nOr not.", ((WHERE,), ("When does it come?",)))
    assert (second.title, second.text) == ("Returns", "Free.")


@pytest.mark.parametrize(
    "page", ["<button></button>" * 20_000, "<label for=x></label>" * 20_000, f"<h2>{'<button>a</button>' * 5_000}</h2>"]
)
def test_many_buttons_take_linear_time(tmp_path, page):
    """Within the limit of a test; by squares they would take minutes."""
    assert read(tmp_path, f"<h3>Money</h3><p>We take coins.</p>{page}")[0] == ("", "Money", "We take coins.")
