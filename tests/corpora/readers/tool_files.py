"""Small files of knowledge bases, assistants and text expanders, in our own words, with what is read of them."""

import json

from rejoinder.corpora.schema import Candidate

TAP = "Turn the tap to the left."
RAIN = "The barrel takes 200 litres."


def asked(*texts):
    return tuple((text,) for text in texts)


OLD_QNA = (
    "Question\tAnswer\tSource\tKeywords\nQuestion\tAnswer\ta.tsv\tSource\n"
    "How does it open?\tTurn the tap to the left.  \\n\ta.tsv\tEditorial\n"
    "The tap is shut\tTurn the tap to the left.  \\n\ta.tsv\tEditorial\n"
    "Question\tAnswer\tb.tsv\tSource\nHow much rain?\tThe barrel takes 200 litres.\tb.tsv\tEditorial\n"
)
QNA_FILE = """> # of the garden shop
> !# @qna.pair.source = x
<a id = "7"></a>
## ? How does the tap open
- tap is shut
* it will not turn

**Filters:**
- part = tap

```markdown
Turn the tap to the left.
  - gently
```
**Prompts:**
- [more](#?8)

# ?How much rain?
\t```
\tThe barrel takes 200 litres.
\t```
# ? Without an answer
"""
WATSON = {
    "name": "garden", "language": "en",
    "intents": [{"intent": "open_tap", "examples": [{"text": "how does it open"}, {"text": "tap is shut"}]},
                {"intent": "rain", "examples": [{"text": "how much rain"}]}],
    "counterexamples": [{"text": "sing a song"}],
    "dialog_nodes": [
        {"dialog_node": "1", "conditions": "#open_tap || #turn", "output": {"generic": [
            {"response_type": "text", "selection_policy": "sequential", "values": [{"text": TAP}, {"text": "Left."}]}]}},
        {"dialog_node": "2", "conditions": "#rain && @month:may", "output": {"text": "In May less."}},
        {"dialog_node": "3", "conditions": "#rain", "output": {"text": {"values": [RAIN]}}},
        {"dialog_node": "4", "conditions": "#rain", "parent": "3", "output": {"text": "And more?"}},
        {"dialog_node": "5", "conditions": "anything_else", "output": {"text": "Sorry?"}},
        {"dialog_node": "6", "conditions": "#rain", "output": {}},
    ],
}  # fmt: skip
CX = {
    "agent.json": json.dumps({"displayName": "garden", "defaultLanguageCode": "en"}),
    "intents/open.tap/open.tap.json": json.dumps({"name": "1", "displayName": "open.tap"}),
    "intents/open.tap/trainingPhrases/en.json": json.dumps({"trainingPhrases": [
        {"id": "1", "parts": [{"text": "how does the "}, {"text": "tap", "parameterId": "part"}, {"text": " open"}],
         "repeatCount": 1, "languageCode": "en"}]}),
    "intents/rain/rain.json": json.dumps({"name": "2", "displayName": "rain"}),
    "intents/rain/trainingPhrases/en.json": json.dumps({"trainingPhrases": [{"parts": [{"text": "how much"}]}]}),
    "flows/Default Start Flow/Default Start Flow.json": json.dumps({"displayName": "Default Start Flow",
        "transitionRoutes": [
            {"intent": "open.tap", "triggerFulfillment": {"messages": [
                {"text": {"text": [TAP, "Left."]}, "languageCode": "en"}]}},
            {"intent": "rain", "targetPage": "Rain", "triggerFulfillment": {}},
            {"intent": "rain", "condition": "$session.params.month = 5", "triggerFulfillment": {"messages": [
                {"text": {"text": ["In May less."]}, "languageCode": "en"}]}},
            {"condition": "true", "triggerFulfillment": {"messages": [{"text": {"text": ["Hi"]}}]}}]}),
    "flows/Default Start Flow/pages/Rain.json": json.dumps({"displayName": "Rain",
        "entryFulfillment": {"messages": [{"text": {"text": [RAIN]}, "languageCode": "en"}]},
        "transitionRoutes": [{"intent": "open.tap", "triggerFulfillment": {"messages": [
            {"text": {"text": ["Only here."]}}]}}]}),
}  # fmt: skip
QNABOT = {"qna": [
    {"qid": "Tap.1", "q": ["How does the tap open?", "Tap is shut"], "a": TAP, "type": "qna", "alt": {"ssml": ""},
     "r": {"title": ""}, "t": "tap"},
    {"qid": "Empty", "q": ["x"], "a": ""},
]}  # fmt: skip
BOTPRESS = {"qnas": [
    {"id": "tap", "data": {"action": "text", "contexts": ["global"], "enabled": True,
                           "answers": {"en": [TAP, "Left."], "de": ["Nach links drehen."]},
                           "questions": {"en": ["how does it open"], "de": ["wie geht der Hahn auf"]},
                           "redirectFlow": "", "redirectNode": ""}},
    {"id": "old", "data": {"enabled": False, "answers": {"en": ["Old."]}, "questions": {"en": ["old"]}}},
], "contentElements": []}  # fmt: skip
ESPANSO = f"""matches:
  - trigger: ":tap"
    replace: "{TAP}"
    label: Tap
  - triggers: [":rain", ":r"]
    replace: |
      {RAIN}
  - trigger: ":now"
    image_path: a.png
"""
CHATTERBOT = f"""categories:
- garden
conversations:
- - How does it open?
  - {TAP}
- - How much rain?
  - {RAIN}
  - Thanks
- - Alone
"""
OSTICKET = f"""---
- title: How does the tap open?
  isenabled: 1
  response: |
    <p>Turn the tap<br />to the left.</p>
  notes: none
- title: Rain
  response: "{RAIN}"
- title: Old
  isenabled: 0
  response: Old.
"""
INACTIVE = "inactive or unapproved entries (--set inactive=keep reads them)"
BOUND = "replies that are bound to a condition, an entity or an earlier step"
# name, content, form, what is read, what is left out
TOOL_FILES = [
    ("kb.tsv", OLD_QNA, "qna-maker",
     [Candidate(TAP, {"Source": "a.tsv", "Keywords": "Editorial"}, "", asked("How does it open?", "The tap is shut")),
      Candidate(RAIN, {"Source": "b.tsv", "Keywords": "Editorial"}, "", asked("How much rain?"))],
     {"repeated headers": 2}),
    ("garden.qna", QNA_FILE, "qna-file",
     [Candidate(f"{TAP}\n  - gently", {"part": "tap"}, "How does the tap open",
                asked("How does the tap open", "tap is shut", "it will not turn")),
      Candidate(RAIN, {}, "How much rain?", asked("How much rain?"))],
     {"questions without an answer": 1}),
    ("skill.json", json.dumps(WATSON, indent=1), "watson",
     [Candidate(TAP, {"id": "open_tap", "variants": ["Left."]}, "open tap", asked("how does it open", "tap is shut")),
      Candidate(RAIN, {"id": "rain"}, "rain", asked("how much rain"))],
     {BOUND: 2, "nodes without an intent (welcome, anything else)": 1}),
    ("agent", CX, "dialogflow-cx",
     [Candidate(TAP, {"id": "open.tap", "variants": ["Left."]}, "open tap", asked("how does the tap open")),
      Candidate(RAIN, {"id": "rain"}, "rain", asked("how much"))],
     {BOUND: 2}),
    ("qna.json", json.dumps(QNABOT), "qnabot",
     [Candidate(TAP, {"id": "Tap.1", "topic": "tap"}, "", asked("How does the tap open?", "Tap is shut"))],
     {"entries without an answer": 1}),
    ("qna.json", json.dumps(BOTPRESS), "botpress",
     [Candidate(TAP, {"id": "tap", "language": "en", "variants": ["Left."]}, "", asked("how does it open")),
      Candidate("Nach links drehen.", {"id": "tap", "language": "de"}, "", asked("wie geht der Hahn auf"))],
     {INACTIVE: 1}),
    ("base.yml", ESPANSO, "espanso", [Candidate(TAP, {"id": ":tap"}, "Tap"), Candidate(RAIN, {"id": ":rain"}, "")],
     {"matches without a text": 1}),
    ("garden.yml", CHATTERBOT, "chatterbot",
     [Candidate(TAP, {"category": "garden"}, "", asked("How does it open?")),
      Candidate(RAIN, {"category": "garden"}, "", asked("How much rain?")),
      Candidate("Thanks", {"category": "garden"}, "", asked(RAIN))],
     {"conversations of one statement": 1}),
    ("canned.yaml", OSTICKET, "osticket",
     [Candidate("Turn the tap\nto the left.", {}, "How does the tap open?", asked("How does the tap open?")),
      Candidate(RAIN, {}, "Rain")], {INACTIVE: 1}),
]  # fmt: skip
