# ruff: noqa: F811 (fixtures of the page's own tests)
"""The tabs of the page in a browser: links, keys, and what each shows to whom."""

import re

import pytest

from rejoinder.retrieval.calibration import Calibration
from rejoinder.serving.guard import Keys
from rejoinder.serving.wire.schema import RepliesResponse
from tests.logs import recorder
from tests.serving.conftest import TEXTS
from tests.serving.test_page_in_chromium import (  # noqa: F401
    CHROMIUM,
    ask_for_replies,
    axe,
    browser,
    entries,
    listening,
    open_page,
    playwright,
    pytestmark,
)

KEYS = Keys(b"a key that reads", b"a key that writes")
TABS = {"try": "#conversation-title", "replies": "#edit-list li", "use": "#report article"}
PAIR = {
    "replies": [
        {
            "text": "We will send another card.",
            "score": 0.8125,
            "position": 3,
            "payload": {"team": "cards", "title": "Lost card"},
            "title": "Lost card",
            "why": {"view": "example", "like": ["Hi!", "my card was stolen"], "similarity": 0.77, "learned": False},
        },
        {
            "text": "At nine.",
            "score": 0.5,
            "position": 4,
            "payload": {},
            "title": "Opening hours",
            "also": True,
            "why": {
                "view": "title",
                "like": ["Opening hours"],
                "similarity": 0.5,
                "learned": False,
                "sentence": "When do you open?",
                "opposes": "We are closed",
            },
        },
    ],
    "confidence": 0.913,
    "answer": "an-answer",
    "notes": {"parts": 3, "cut": True, "corrected": {"crad": "card"}},
}
BELOW = {
    "text": "Refunds take three days.",
    "score": 0.125,
    "position": 5,
    "payload": {},
    "why": {"view": "example", "like": [], "similarity": 0.25, "learned": True},
}


def selected(page):
    return page.locator("[role=tab][aria-selected=true]").inner_text()


def panels(page):
    return [panel.get_attribute("id") for panel in page.locator("[role=tabpanel]").all() if panel.is_visible()]


@pytest.mark.parametrize("name", TABS)
@pytest.mark.parametrize(("scheme", "width", "letters"), [("light", 375, 16), ("dark", 1280, 16), ("light", 375, 32)])
def test_a_link_names_a_tab_in_which_axe_finds_nothing(answers, name, scheme, width, letters):
    recorder(answers.index).feedback(["where?"], [0, 1], chosen=1)
    recorder(answers.index).feedback(["who?"], [0, 1], text="Somebody else.")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", f"--blink-settings=defaultFontSize={letters}"]
        )
        page = opened.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
        failed = []
        page.on("pageerror", lambda error: failed.append(error))
        page.on("console", lambda message: message.type == "error" and failed.append(message.text))
        with listening(answers) as address:
            page.goto(f"{address}#{name}")
            page.locator(TABS[name]).first.wait_for()
            page.wait_for_timeout(200)
            found = axe.Axe().run(page)
            wider = page.evaluate("document.documentElement.scrollWidth > innerWidth")
            assert (selected(page).lower(), panels(page)) == (name, [f"panel-{name}"])
            assert page.title() == f"{name.capitalize()} · Rejoinder"
            opened.close()
    assert not found.response["violations"], found.generate_report()
    assert (failed, wider) == ([], False)


def test_arrow_keys_go_through_the_tabs_and_the_address_follows(open_page):
    page = open_page()
    assert (selected(page), page.evaluate("document.activeElement.id")) == ("Try", "draft")
    page.locator("#tab-try").focus()
    for key, name in (("ArrowRight", "Replies"), ("End", "Use"), ("ArrowRight", "Try"), ("ArrowLeft", "Use"), ("Home", "Try")):
        page.keyboard.press(key)
        playwright.expect(page).to_have_title(f"{name} · Rejoinder")
        assert selected(page) == name
        assert page.evaluate("document.activeElement.id") == f"tab-{name.lower()}"
        assert page.evaluate("location.hash") == f"#{name.lower()}"
        assert page.locator("[role=tab][tabindex='0']").count() == 1
    page.locator("#tab-replies").click()
    page.locator("#edit-list li").first.wait_for()
    page.go_back()
    playwright.expect(page).to_have_title("Try · Rejoinder")
    assert panels(page) == ["panel-try"]


def test_the_first_key_skips_to_the_content_and_keeps_the_tab(open_page):
    page = open_page()
    page.locator("#tab-replies").click()
    page.locator("#edit-list li").first.wait_for()
    page.locator("#skip").focus()
    page.keyboard.press("Enter")
    assert (selected(page), page.evaluate("document.activeElement.id")) == ("Replies", "main")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "add-reply"


def test_a_conversation_is_asked_again_when_the_replies_may_have_changed(open_page):
    page = open_page()
    ask_for_replies(page, "is it new")
    page.locator("#tab-replies").click()
    page.locator("#edit-list li").first.wait_for()
    with page.expect_request("**/v1/replies") as asked:
        page.locator("#tab-try").click()
    assert asked.value.post_data_json["messages"] == [{"role": "user", "content": "is it new"}]


def test_an_unknown_name_shows_the_first_tab(open_page):
    page = open_page()
    page.evaluate("location.hash = '#nothing'")
    page.wait_for_timeout(100)
    assert (selected(page), panels(page)) == ("Try", ["panel-try"])


def test_a_reply_has_its_title_what_it_is_like_how_sure_and_what_was_left_out(open_page):
    RepliesResponse(**PAIR)
    every = {**PAIR, "replies": [*PAIR["replies"], BELOW]}
    RepliesResponse(**every)
    page = open_page()
    page.route(
        "**/v1/replies",
        lambda route: route.fulfill(json=every if "minimum_score" in route.request.post_data_json else PAIR),
    )
    page.fill("#draft", "my crad is gone and so is another thing. When do you open?")
    page.locator("#first .replies .reply").first.wait_for()
    first, second = page.locator("#first > .replies > li").all()
    words = [line for line in first.inner_text().splitlines() if line]
    assert words[:2] == ["Lost card", "We will send another card."]
    for text in ("score 0.813", "right with 91 %", "like: “my card was stolen” (example, 0.77)", "team: cards"):
        assert text in first.inner_text()
    assert "title:" not in first.inner_text(), "it has one already"
    for text in (
        "answers the other question “When do you open?”",
        "like: “Opening hours” (its title, 0.50)",
        "Its score was lowered: “We are closed” says the opposite.",
    ):
        assert text in second.inner_text()
    assert "right with" not in second.inner_text()
    assert page.locator("#first .status").inner_text() == "2 replies"
    assert page.locator("#first .notes").inner_text().splitlines() == [
        "“crad” was read as “card”.",
        "It was searched in 3 parts: its sentences and the whole.",
        "It is long: some of it was not read.",
    ]
    details = page.locator("#first .left-out")
    assert details.locator("summary").inner_text() == "1 left out"
    assert not details.locator("li").first.is_visible()
    details.locator("summary").click()
    assert "like: a message that customers wrote (learned example, 0.25)" in details.inner_text()


@pytest.mark.parametrize(
    ("changed", "facts", "said"),
    [
        ({}, {"minimum_score": 0.31}, "No reply: the best score is 0.125; this index answers from 0.310 on."),
        ({}, {}, "No reply is near enough."),
        (
            {"reason": "language", "notes": {"language": "unknown"}},
            {},
            "No reply: most of its words are neither English nor of the replies.",
        ),
        ({"reason": "denied"}, {}, "No reply: what is nearest answers the opposite."),
    ],
)
def test_silence_is_explained_and_what_was_near_is_shown(browser, answers, changed, facts, said):
    silent = {"replies": [], "confidence": None, "answer": "one", **changed}
    near = {"replies": [BELOW], "confidence": None, "answer": "two"}
    RepliesResponse(**silent)
    page = browser.new_page()
    page.route(
        "**/v1/replies",
        lambda route: route.fulfill(json=near if "minimum_score" in route.request.post_data_json else silent),
    )
    with listening(answers) as address:
        told = page.request.get(f"{address}v1/about").json()
        told["first"] |= facts
        page.route("**/v1/about", lambda route: route.fulfill(json=told))
        page.goto(address)
        page.get_by_text("20 replies").first.wait_for()
        page.fill("#draft", "the moon")
        page.locator("#first .left-out .reply").wait_for()
        assert page.locator("#first .status").inner_text() == said
        assert page.locator("#first .left-out[open]").count() == 1
        assert page.locator("#none").is_hidden()
        page.close()


def test_a_server_that_is_unsure_is_silent_on_the_page_too(open_page, answers):
    facts = {"index": answers.index.fingerprint, "model": answers.encoder.fingerprint, "history": None}
    Calibration(**facts, score_weight=0.0, gap_weight=0.0, intercept=-1.0).save(answers.sources.index)
    page = open_page(minimum_confidence=0.9)
    page.fill("#draft", "reply number 4")
    page.locator("#first .left-out .reply").first.wait_for()
    said = "No reply: the best one is right with 27 %; this server answers from 90 % on."
    assert page.locator("#first .status").inner_text() == said
    left_out = page.locator("#first .left-out .reply")
    assert left_out.count() == 5
    taken = left_out.first.inner_text()
    left_out.first.click()
    [entry] = entries(answers, 1)
    assert (entry.offered, entry.chosen, entry.taken) == ((), taken, "unoffered")


def test_a_key_that_reads_looks_at_replies_and_at_no_report(browser, answers):
    page = browser.new_page()
    failed = []
    page.on("pageerror", lambda error: failed.append(error))
    with listening(answers, keys=KEYS) as address:
        page.goto(f"{address}#replies")
        page.get_by_text("This server needs a valid key: write it above.").wait_for()
        assert panels(page) == []
        page.fill("#key-value", "a key that reads")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Look at reply 3", exact=True).click()
        page.locator("#editor").wait_for()
        assert page.get_by_label("Text", exact=True).get_attribute("readonly") is not None
        assert page.locator("#editor button:visible").all_inner_texts() == ["Close"]
        assert not axe.Axe().run(page).response["violations"]
        page.keyboard.press("Escape")
        sentence = "This key may only read: you can look at the replies, not change them."
        assert page.get_by_text(sentence).is_visible()
        for hidden in ("#add-reply", "#import", "#change-list"):
            assert page.locator(hidden).is_hidden()
        page.locator("#tab-use").click()
        page.get_by_text("The report holds customers' words, which this key may not read.").wait_for()
        assert page.locator("#report").inner_text() == ""
        assert page.locator("#problem").is_hidden()
        page.get_by_role("button", name="Use another key").last.click()
        assert page.evaluate("document.activeElement.id") == "key-value"
        page.keyboard.type("a key that writes")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Use of index").wait_for()
        page.close()
    assert failed == []


def test_the_report_names_what_was_taken_never_taken_and_missing_and_leads_to_replies(open_page, answers):
    recorder(answers.index).feedback(["where?"], [0, 1], chosen=1)
    recorder(answers.index).feedback(["who?"], [0, 1], text="Somebody else.")
    page = open_page()
    page.locator("#tab-use").click()
    page.locator("#report table").first.wait_for()
    words = page.locator("#report").inner_text()
    for text in ("Of 2 answers the first reply was taken in", "Messages without a reply (1)", "Somebody else."):
        assert text in words
    assert re.search(r"Replies that nobody took \(19\)", words)
    page.get_by_role("link", name="#0").last.click()
    page.get_by_role("heading", name="Reply 0").wait_for()
    assert (selected(page), page.input_value("#reply-text")) == ("Replies", TEXTS[0])
    page.keyboard.press("Escape")
    playwright.expect(page).to_have_url(re.compile("#replies$"))
    page.go_back()
    page.locator("#report table").first.wait_for()


def test_the_history_says_what_was_changed_and_the_list_finds_by_number(open_page):
    page = open_page()
    page.locator("#tab-replies").click()
    page.get_by_role("button", name="Edit reply 3", exact=True).click()
    page.fill("#reply-text", "A zebra.")
    page.fill("#new-example", "what is striped")
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator("#edit-status", has_text="Reply 3 is saved.").wait_for()
    assert page.evaluate("document.activeElement.dataset.position") == "3"
    change = page.locator("#change-list li").first.inner_text()
    for text in ("1: edited", "#3 A zebra.", f"text was: {TEXTS[3]}", "+ what is striped"):
        assert text in change
    page.get_by_role("button", name="Undo change 1").click()
    page.locator("#edit-status", has_text="Change 1 is undone.").wait_for()
    verbs = page.locator("#change-list strong").all_inner_texts()
    assert [verb.strip() for verb in verbs] == ["2: reverted", "1: edited"]
    assert page.evaluate("document.activeElement.id") == "changes-title"
    page.fill("#search-words", "#12")
    playwright.expect(page.locator("#edit-list .number").first).to_have_text("#12")
