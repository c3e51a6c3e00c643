"""osTicket: canned responses in the YAML that its command line writes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import dicts
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.standing import is_inactive, why_unused
from rejoinder.corpora.readers.yaml_text import load_sample
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.html_text import text_of_html
from rejoinder.patterns import search_pattern

_RESPONSE = search_pattern(r"^[ \t]{0,8}-?[ \t]{0,8}response:", re.MULTILINE)
_TITLE = search_pattern(r"^[ \t]{0,8}-?[ \t]{0,8}title:", re.MULTILINE)


def read_osticket(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each canned response that is enabled."""
    values = load_sample(sample, choice, reading)
    if not isinstance(values, list):
        raise InputError(f"{sample.source}: a list of canned responses is read")
    for entry in dicts(values):
        if not choice.inactive and is_inactive(entry):
            reading.drop(why_unused(choice))
            continue
        text = text_of_html(str(entry.get("response") or ""), with_links=True)
        if not text:
            reading.drop("entries without a text")
            continue
        title = str(entry.get("title") or "").strip()
        examples = ((title,),) if title.endswith("?") else ()
        yield Candidate(text, {}, title, examples)


OSTICKET = Form(
    name="osticket",
    title="osTicket canned responses",
    holds="replies",
    export="osTicket: php manage.php canned export -f canned.yaml, or templates/premade.yaml",
    matches=lambda sample: (
        sample.kind == "yaml"
        and _RESPONSE.search(sample.text) is not None
        and _TITLE.search(sample.text) is not None
    ),
    read=read_osticket,
)
