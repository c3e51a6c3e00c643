"""`rejoinder join`: the share that ranks best on conversations, or a given one."""

import pytest

import rejoinder
from rejoinder.corpora.schema import Example
from rejoinder.corpora.forms.examples import write_examples
from tests.encoders.conftest import saved

VERB = ["join"]


@pytest.fixture
def models(tmp_path):
    return saved(tmp_path / "a", history=3), saved(tmp_path / "b", output_size=40)


def test_the_share_is_chosen_on_validation_data(command, models, tmp_path):
    words = ["hello", "noon", "the end", "soon", "yes", "no", "when", "never", "here", "there"]
    examples = [
        Example((f"{words[i % 10]} {words[i // 10]}?",), f"{words[i // 10]} {words[i % 10]}.")
        for i in range(100)
    ]
    write_examples(examples, tmp_path / "data" / "valid-0.parquet")
    found = command(*models, "--data", tmp_path / "data", "-o", tmp_path / "joined", "--json").json
    tried = {row["share"]: row["mrr"] for row in found["tried"]}
    assert (len(tried), tried[found["share"]]) == (21, max(tried.values()))
    for share, model in ((0, models[0]), (1, models[1]), (found["share"], tmp_path / "joined")):
        assert rejoinder.evaluate(rejoinder.load(model), examples).mrr.value == pytest.approx(
            tried[share], abs=1e-9
        )


def test_a_few_examples_are_enough_and_a_taken_folder_is_refused_before_the_work(
    command, refused, models, tmp_path
):
    write_examples(
        [Example((f"{i}?",), f"{i}.") for i in range(7)], tmp_path / "data" / "valid-0.parquet"
    )
    assert (
        len(
            command(*models, "--data", tmp_path / "data", "-o", tmp_path / "joined", "--json").json[
                "tried"
            ]
        )
        == 21
    )
    refused(
        *models, "--data", tmp_path / "no-such-data", "-o", tmp_path / "joined", said="--overwrite"
    )


def test_too_few_examples_are_named(refused, models, tmp_path):
    write_examples([Example(("one?",), "one.")], tmp_path / "data" / "valid-0.parquet")
    said = f"{tmp_path / 'data'} (its split valid) has 1 examples; a share is chosen on 2 or more, or given: --share 0.3"
    refused(*models, "--data", tmp_path / "data", "-o", tmp_path / "joined", said=said)


def test_a_given_share_is_taken(command, models, tmp_path):
    ended = command(*models, "--share", 0.3, "-o", tmp_path / "joined")
    assert "share is 0.3" in ended.out
    assert rejoinder.load(tmp_path / "joined").config.share == 0.3
    assert rejoinder.load(tmp_path / "joined").config.opening_share is None


def test_an_opening_may_have_another_share(command, models, tmp_path):
    write_examples(
        [Example((f"{i}?",), f"{i}.") for i in range(7)], tmp_path / "data" / "valid-0.parquet"
    )
    given = ("--data", tmp_path / "data", "--opening-share", 0)
    found = command(*models, *given, "-o", tmp_path / "joined", "--json").json
    assert [row["share"] for row in found["tried"]] == [
        twentieth / 20 for twentieth in range(1, 20)
    ]
    assert rejoinder.load(tmp_path / "joined").config.opening_share == 0
    ended = command(*models, "--share", 0.3, "--opening-share", 0.1, "-o", tmp_path / "again")
    assert "share is 0.3, 0.1 where nothing was said before" in ended.out


def test_what_is_wrong_is_said(refused, models, tmp_path):
    refused(*models, "-o", tmp_path / "joined", said=["--share 0.3", "--data"])
    refused(*models, "--share", 0.3, "--data", tmp_path, "-o", tmp_path / "joined", said="--data")
    refused(
        models[0], tmp_path / "none", "--share", 0.3, "-o", tmp_path / "joined", said="no model '"
    )
