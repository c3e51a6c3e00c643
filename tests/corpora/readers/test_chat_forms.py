"""Chats in the forms of the tools: the same fifty chats give the same examples, whatever tool they come from."""

import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.recognition import FORMS, find_form
from rejoinder.corpora.registry.chats import ChatsSettings, read_chats
from rejoinder.corpora.forms.choice import Choice
from tests.corpora.readers import fifty_chats

MAKERS = [(form, make) for form, makes in fifty_chats.FORMS.items() for make in makes]


@pytest.mark.parametrize(("form", "make"), MAKERS, ids=lambda each: getattr(each, "__name__", each))
def test_the_same_chats_give_the_same_examples_from_every_form(tmp_path, form, make):
    paths = fifty_chats.write_files(tmp_path, make)
    settings = ChatsSettings(agent=fifty_chats.AGENT) if make in fifty_chats.UNMARKED else ChatsSettings()
    reading = Reading()
    examples = [example for path in paths for example in read_chats(path, reading, settings)]
    assert sorted((example.context, example.response) for example in examples) == fifty_chats.wanted()
    assert {find_form(path, Choice(), "chats")[0].name for path in paths} == {form}
    assert len({example.thread for example in examples}) > 40
    assert FORMS[form].title in reading.notes[-1]


def test_each_form_of_chats_is_made_here():
    assert set(fifty_chats.FORMS) == {form.name for form in FORMS.values() if form.holds == "chats"}
