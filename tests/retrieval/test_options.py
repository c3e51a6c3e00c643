"""Options of a search: what excludes each other is refused in one place, whoever makes them."""

from pathlib import Path

import pytest

from rejoinder.cli.models import open_index
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import ANY_SCORE, SearchOptions
from rejoinder.retrieval.cascade import Cascade
from tests.retrieval.conftest import HashEncoder
from tests.retrieval.test_cascade import ByLength

SURE = {"minimum_confidence": 0.5, "distinct": True}
IMPOSSIBLE = [
    ({"rerank": 5, "k": 6}, "k is 6; 5 replies are ranked again, so 1 to 5 is allowed"),
    ({"rerank": 5, "diversity": 0.1}, "leave it or rerank out"),
    ({**SURE, "rerank": 5}, "leave rerank out"),
    ({**SURE, "distinct": False}, r"leave copies \(distinct=False\) out"),
    ({**SURE, "where": {"team": "billing"}}, "leave where out"),
    ({**SURE, "diversity": 0.1}, "leave diversity out"),
    ({**SURE, "hybrid": 0.1}, "leave hybrid out"),
]


@pytest.mark.parametrize(("options", "message"), IMPOSSIBLE)
def test_impossible_combinations_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        SearchOptions(**options)
    for name in {*options} - {"k", "distinct"}:
        SearchOptions(k=1, distinct=True, **{name: options[name]})


def test_the_first_search_is_as_wide_as_what_comes_after_it_needs():
    wide = SearchOptions(k=3, rerank=50, minimum_score=9.0, history=2).first_search
    open_wide = SearchOptions(k=50, minimum_score=ANY_SCORE, history=2)
    assert wide == open_wide, "the threshold is one of the slow ranker's scores"
    gap = SearchOptions(k=1, **SURE, minimum_score=0.5).first_search
    two = SearchOptions(k=2, minimum_score=ANY_SCORE, distinct=True)
    assert gap == two, "a calibration reads the gap to the second"
    plain = SearchOptions(k=3, minimum_score=0.5, diversity=0.5)
    assert plain.first_search == plain


def test_an_index_alone_refuses_what_it_cannot_do(tmp_path):
    index = Index.build(HashEncoder(), ["a", "b b"], tmp_path / "index")
    for options in (SearchOptions(rerank=5), SearchOptions(**SURE)):
        with pytest.raises(InputError, match="take Cascade or CalibratedIndex"):
            index.find([["a"]], options)


def test_a_search_and_its_options_find_the_same(tmp_path):
    index = Index.build(HashEncoder(), [f"reply {i}" for i in range(9)], tmp_path / "index")
    chosen = {"k": 3, "minimum_score": -0.5, "history": 1, "no_repeat": True, "distinct": True}
    contexts = [["reply 1", "reply 2"], ["x"]]
    for source in (index, Cascade(index, ByLength(), 5)):
        assert source.find(contexts, SearchOptions(**chosen)) == source.search(contexts, **chosen)
    assert index.search(contexts, diversity=0.4) == index.find(contexts, SearchOptions(diversity=0.4))
    with pytest.raises(InputError, match="leave it or rerank out"):
        Cascade(index, ByLength(), 5).search(contexts, diversity=0.4)


@pytest.mark.folder
def test_a_command_reads_the_manifest_once(tmp_path, monkeypatch):
    Index.build(HashEncoder(), ["a", "b b"], tmp_path / "index")
    monkeypatch.setattr("rejoinder.encoders.open.open_encoder", lambda *_, **__: HashEncoder())
    read = []
    real = Path.read_text

    def read_text(path, *given, **options):
        read.append(path.name)
        return real(path, *given, **options)

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setenv("REJOINDER_MODEL", "model")
    index = open_index(tmp_path / "index")
    assert index.search([["a"]], 1)[0][0].text == "a"
    assert read == ["manifest.json"]
