"""Canned replies are encoded by what they say; their texts come back untouched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.retrieval.index import Index
from rejoinder.retrieval.encoding.templates import plain
from tests.retrieval.conftest import HashEncoder

WHOLE = """Hi {{contact.first_name}},

Thank you for reaching out. {{#if order.number}}We found order {{order.number}}.{{else}}We found no order.{{/if}}

1. Open **Settings**.
2. Press [Reset](https://example.com/reset).

Kind regards,
{{agent.name}}
The Example team
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("We open at nine.", "We open at nine."),
        ("Hi!", "Hi!"),
        ("Hello there, how can I help you?", "Hello there, how can I help you?"),
        ("Thanks,\nyou are right about that.", "Thanks,\nyou are right about that."),
        ("Hi {{name}}, your parcel is on its way.", "your parcel is on its way."),
        ("Hello %first_name%! We ship on Monday.", "We ship on Monday."),
        ("Your order <order_number> left us.", "Your order order number left us."),
        ("Dear [Customer Name],\nwe are sorry.\nBest,\nAnna", "we are sorry."),
        ("<p>We open at <b>nine</b>.</p><p>See you!</p>", "We open at nine.\nSee you!"),
        ('<p>See <a title="Plans > Prices" href="https://x.y/z">our prices</a>.</p>', "See our prices."),
        ("Turn<br title='a > b'>left", "Turn\nleft"),
        ('<p title="5 > 3>Turn left</p>', "3>Turn left"),
        ("See https://example.com/help for more.", "See for more."),
        ("{{contact.name}}", "{{contact.name}}"),
        ("a < b and c > d", "a < b and c > d"),
        ("It costs $5 or 10%.", "It costs $5 or 10%."),
        ("We got your message.\nThank you!\nPlease send us a photo.",
         "We got your message.\nThank you!\nPlease send us a photo."),
        ("Hi, we are open daily\nfrom nine to six.", "Hi, we are open daily\nfrom nine to six."),
        ("Hi {{name}},\n\nThanks,\nBob", "Hi {{name}},\n\nThanks,\nBob"),
        ("<blockquote>Write &amp; call</blockquote> us", "Write & call us"),
        ("**Bold** words in `code`", "Bold words in code"),
        ("We are in [Berlin] today.", "We are in Berlin today."),
        ('{"a": 1}', '{"a": 1}'),
        ("Hi <%= ticket.requester %>, it is done.", "it is done."),
        (WHOLE, "Thank you for reaching out. We found order order number. We found no order.\n"
                "Open Settings.\nPress Reset."),
    ],
)  # fmt: skip
def test_what_a_canned_reply_says(text, said):
    assert plain(text) == said


@pytest.mark.parametrize("mark", ["#{ticket.customer.firstname}", "%{user.name}", "{!Contact.FirstName}", "{{{name}}}",
                                  "%filltext:name=city:default=Bonn%", "{formtext: name=city; default=Bonn}", "{$name}",
                                  "${customer.name}", "[[name]]", "\u00abVorname\u00bb", "{{name}}"])  # fmt: skip
def test_placeholders_of_other_tools_are_not_read(mark):
    assert plain(f"The tap of {mark} turns to the left.").split() == ["The", "tap", "of", "turns", "to", "the", "left."]


def test_a_placeholder_that_names_a_thing_keeps_its_words():
    assert plain("Tell us #{order.number}, please.") == "Tell us order number, please."


@pytest.mark.parametrize(("text", "said"), [
    ("Hello,<br><br>turn the tap", "turn the tap"),
    ("<p>Turn the tap<p>to the left", "Turn the tap\nto the left"),
    ("<ul><li>tap<li>barrel", "tap\nbarrel"),
    ("Turn<br/>left&nbsp;now", "Turn\nleft now"),
    ("2 < 3 and a <Name> stays", "2 < 3 and a stays"),
])  # fmt: skip
def test_tags_that_are_not_closed_are_spaces(text, said):
    assert plain(text) == said


@given(st.text())
def test_no_text_becomes_empty_and_plain_text_stays(text):
    assert bool(plain(text).strip()) == bool(text.strip())
    if all(char.isalnum() or char in " ,.'" for char in text):
        assert plain(text) == text


def test_an_index_encodes_what_is_said_and_gives_back_what_is_written(tmp_path):
    encoder = HashEncoder()
    texts = ["Hi {{name}}, we open at nine.", "Bye."]
    index = Index.build(encoder, texts, tmp_path / "index")
    [[best]] = index.search([["we open at nine."]], k=1)
    assert (best.text, best.score) == (texts[0], pytest.approx(1, abs=1e-6))
    index.add(["Hi {{name}}, it is free."])
    assert index.search([["it is free."]], k=1)[0][0].position == 2
    again = index.reencode(HashEncoder("second"), tmp_path / "again")
    assert again.search([["we open at nine."]], k=1)[0][0].score == pytest.approx(1, abs=1e-6)
    written = Index.build(encoder, texts, tmp_path / "written", as_written=True)
    vectors = encoder.encode_contexts([[texts[0]]])  # a search would leave the greeting out
    assert written.search_vectors(vectors)[0][0].score == pytest.approx(1, abs=1e-6)
    assert written.search([["we open at nine."]], k=1)[0][0].score < 0.9
