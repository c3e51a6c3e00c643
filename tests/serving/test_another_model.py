"""An index in PostgreSQL is built again with another model while servers of the first one run."""

import json
import urllib.error

import pytest

import rejoinder
from rejoinder.retrieval.index import Index
from tests.servers import get, served, until

pytestmark = pytest.mark.folder  # it names its store
REPLIES = [f"This is what we say about matter {number}." for number in range(300)]
QUESTION = {"messages": ["What about matter 7?"], "k": 1}


def built(address, model, *, tuned):
    index = Index.build(rejoinder.load(model), REPLIES, address, overwrite=True)
    if tuned:
        index.approximate(0.9)


def status_and_reason(server):
    try:
        return 200, get(server.port, "/ready").get("reason")
    except urllib.error.HTTPError as error:
        return error.code, json.load(error).get("reason")


def test_a_search_that_needs_the_new_model_is_the_servers_trouble_until_it_is_reloaded(postgres, capfd):
    address = f"{postgres}&index=retuned"
    built(address, "convert-small", tuned=True)
    with served(address) as server:
        assert server.ask("/v1/replies", QUESTION)["replies"]
        built(address, "bi-small", tuned=True)
        until(lambda: status_and_reason(server)[0] == 503, 10)
        assert "built again with another model" in status_and_reason(server)[1]
        for _ in range(3):
            with pytest.raises(urllib.error.HTTPError) as refused:
                server.ask("/v1/replies", {"messages": ["Something else?"]})
            assert refused.value.code == 503
            assert "reload" in json.load(refused.value)["error"]["message"]
        server.ask("/admin/reload", {})
        assert server.ask("/v1/replies", QUESTION)["replies"]
        until(lambda: status_and_reason(server) == (200, None), 10)
    log = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    told = [line for line in log if line["event"].startswith("the index has changed and cannot be opened")]
    assert [line["reason"].count("bi-small") for line in told] == [1], "it is said once"


def test_what_is_in_memory_goes_on_answering_and_ready_says_why(postgres):
    address = f"{postgres}&index=rebuilt"
    built(address, "convert-small", tuned=False)
    with served(address) as server:
        before = server.ask("/v1/replies", QUESTION)["replies"]
        built(address, "bi-small", tuned=False)
        until(lambda: status_and_reason(server)[1], 10)
        status, reason = status_and_reason(server)
        assert (status, reason.partition(": ")[0]) == (200, "it only searches")
        assert "built again with another model" in reason
        assert server.ask("/v1/replies", QUESTION)["replies"] == before
