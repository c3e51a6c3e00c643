"""Programs that `test_network` traces, each in a folder with its files.

`python -m tests.network.sessions NAME` runs one. Each names its steps in the trace by opening paths
that no machine has.
"""

from __future__ import annotations

import contextlib
import http.server
import importlib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

STEP = "/step/"  # as in `traced`, which a session does not import
LINES = {  # of each verb
    "--help": ["--help"],
    "data": ["data jsonl dialogues/a.jsonl -o out/data"],
    "list corpora": ["list corpora jsonl"],
    "list formats": ["list formats"],
    "index build": [
        "index build convert-small replies.txt -o out/index",
        "index build minilm replies.txt -o out/index-minilm",
        "index build MODEL replies.txt -o out/index-milvus --store milvus",
        "index build MODEL replies.txt -o out/index-approximate",
    ],
    "index add": ["index add out/index-minilm replies.txt"],
    "index delete": ["index delete out/index-minilm 0"],
    "index compact": ["index compact out/index-minilm"],
    "index reencode": ["index reencode out/index MODEL -o out/index-reencoded"],
    "index tune": ["index tune out/index-approximate"],
    "index verify": ["index verify out/index"],
    "reply": [
        "reply out/index Hello!",
        "reply out/index-milvus hello",
        "reply out/index-approximate hello",
    ],
    "mine": ["mine examples -o out/replies.csv"],
    "learn": ["learn out/index --data examples"],
    "feedback": ["feedback out/index --set days=90"],
    "report": ["report out/index"],
    "chat": ["chat out/index"],
    "mcp": ["mcp out/index"],
    "lab tokenise": ["lab tokenise recipe.toml --data examples -o out/cache"],
    "train": ["train recipe.toml --data examples -o out/run"],
    "evaluate": [
        "evaluate bm25 minilm out/run/model --data examples --candidates 20 -o out/evaluation"
    ],
    "index evaluate": [
        "index build MODEL examples -o out/responses",
        "index evaluate out/responses --data examples",
    ],
    "calibrate": [
        "index build convert-small texts.txt -o out/texts",
        "calibrate out/texts --data conversations",
    ],
    "lab ablate": ["lab ablate rows.toml --data examples -o out/ablation --candidates 20"],
    "lab table": ["lab table table.toml -o out/table"],
    "lab plot": ["lab plot MODEL --data texts.csv -o out/plot.png --perplexity 5"],
    "export": [
        "export MODEL --to quantized -o out/quantized",
        "export MODEL --to sentence-transformers -o out/sentence-transformers",
        "export BERT --to transformers -o out/transformers",
    ],
    "join": ["join MODEL out/run/model --share 0.3 -o out/joined"],
    "list models": ["list models out --sizes"],
    "list recipes": ["list recipes"],
    "doctor": ["doctor"],
    "intents train": ["intents train MODEL intents.csv -o out/intents"],
    "intents evaluate": ["intents evaluate out/intents intents.csv --report out/report"],
    "intents predict": ["intents predict out/intents hello"],
    "intents export": ["intents export out/intents -o out/intents-onnx"],
    "lab grid": ["lab grid MODEL intents.csv -o out/grid"],
    "lab few-shot": [
        "lab few-shot MODEL intents.csv --test intents.csv --seeds 2 --shots 2"
    ],
    "lab bert": [
        "lab bert START intents.csv --test intents.csv -o out/bert --set epochs=1"
    ],
    "intents split": ["intents split intents.csv -o out/parts"],
    "intents fine-tune": ["intents fine-tune MODEL intents.csv -o out/tuned --set steps=1"],
}
SERVING = (
    12  # seconds; onnxruntime's telemetry looks its collector up nine seconds after its import
)


def step(name: str) -> None:
    """Say what begins."""
    with contextlib.suppress(FileNotFoundError):
        Path(STEP + name).read_bytes()


def verbs() -> None:
    """Run every verb but `serve`, in one process."""
    from rejoinder.cli.start import main
    from rejoinder.intents import heads
    from rejoinder.lab import grid

    grid.paper_grid = lambda: iter([heads.FeedForward(epochs=2, hidden_size=8)])
    for verb, lines in LINES.items():
        for line in lines:
            step(verb)
            sys.argv = ["rejoinder", *shlex.split(line)]
            sys.stdin = io.TextIOWrapper(io.BytesIO(b"Hello!\n"))
            try:
                main()
            except SystemExit as ended:
                if ended.code:
                    raise SystemExit(f"rejoinder {line}: exit code {ended.code}") from None


def serve() -> None:
    """Ask a server with two workers, and leave it alone for some seconds."""
    command = [
        sys.executable,
        "-m",
        "rejoinder",
        "serve",
        "index",
        "--port",
        "0",
        "--workers",
        "2",
        "--json",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["url"]
        end = time.monotonic() + SERVING
        for path, body in [
            ("/", None),
            ("/metrics", None),
            ("/v1/replies", {"messages": ["Hello!"]}),
            ("/v1/embeddings", {"input": ["Hello!"]}),
        ]:
            step(f"serve {path}")
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(
                address + path, data, {"content-type": "application/json"}
            )
            urllib.request.urlopen(request, timeout=60).read()
        step("serve")
        time.sleep(end - time.monotonic())
    finally:
        server.terminate()
        code = server.wait(40)
    assert code in (0, -signal.SIGTERM), code


def desk() -> None:
    """Let a receiver of webhooks put a note into a desk, which is on this machine."""
    notes: list[bytes] = []

    class Notes(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            notes.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Notes) as stand_in:
        threading.Thread(target=stand_in.serve_forever, daemon=True).start()
        to = f"http://127.0.0.1:{stand_in.server_port}"
        words = ["desk", "index", "--desk", to, "--kind", "generic", "--port", "0", "--json"]
        command = [sys.executable, "-m", "rejoinder", *words]
        step("desk")
        receiver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert receiver.stdout is not None
            address = json.loads(receiver.stdout.readline())["url"]
            said = {"id": "1", "conversation": "1", "author": "customer", "text": "Hello!"}
            request = urllib.request.Request(address, json.dumps(said).encode())
            urllib.request.urlopen(request, timeout=60).read()
            end = time.monotonic() + SERVING
            while time.monotonic() < end:
                time.sleep(0.1)
        finally:
            receiver.terminate()
            code = receiver.wait(40)
        stand_in.shutdown()
    assert (code in (0, -signal.SIGTERM), len(notes)) == (True, 1), code


def runtime() -> None:
    """Open the bundled model without PyTorch, and score."""
    step("rejoinder.runtime")
    from rejoinder.runtime import OnnxEncoder

    OnnxEncoder("convert-small").score(
        [["Hi!", "Any pets?"]], [["Yes, two cats!", "We open at nine."]]
    )
    assert "torch" not in sys.modules


def _library() -> None:
    import rejoinder

    rejoinder.load("convert-small").score([["Hello!"]], [["Hi!", "At nine."]])
    rejoinder.Index.open("index").search([["Hello!"]])


def _haystack() -> None:
    from rejoinder.integrations.haystack import RejoinderDocumentEmbedder, RejoinderRanker

    haystack = importlib.import_module("haystack")
    document = haystack.Document(content="Hi!")
    RejoinderDocumentEmbedder("MODEL").run([document])
    pipeline = haystack.Pipeline()
    pipeline.add_component("ranker", RejoinderRanker("MODEL"))
    pipeline.run({"ranker": {"query": "Hello!", "documents": [document]}})


def _huggingface() -> None:
    importlib.import_module("rejoinder.integrations.huggingface")  # all that it does is an upload


def _langchain() -> None:
    from rejoinder.integrations.langchain import RejoinderEmbeddings, RejoinderRetriever
    from rejoinder.retrieval.index import Index

    RejoinderEmbeddings("MODEL").embed_query("Hello!")
    RejoinderRetriever(index=Index.open("index")).invoke("Hello!")


def _mcp() -> None:
    import asyncio

    from rejoinder.integrations.mcp import make_server
    from rejoinder.retrieval.index import Index

    server = make_server(Index.open("index"))
    asyncio.run(server.call_tool("suggest_replies", {"messages": ["Hello!"]}))


def _sklearn() -> None:
    from rejoinder.integrations.sklearn import RejoinderEncoder

    RejoinderEncoder("MODEL").fit_transform(["Hello!", "At nine."])


def _spacy() -> None:
    importlib.import_module("rejoinder.integrations.spacy")
    nlp = importlib.import_module("spacy").blank("en")
    nlp.add_pipe("rejoinder_intents", config={"classifier": "CLASSIFIER"})
    nlp("Hello!")


ADAPTERS: dict[str, Callable[[], None]] = {
    "haystack": _haystack,
    "huggingface": _huggingface,
    "langchain": _langchain,
    "mcp": _mcp,
    "sklearn": _sklearn,
    "spacy": _spacy,
}


def adapters() -> None:
    """Use the library, and then each adapter."""
    step("rejoinder")
    _library()
    for name, use in ADAPTERS.items():
        step(f"rejoinder.integrations.{name}")
        use()


def attempts() -> None:
    """Try what the others must not, for the tracer's own test: by Python and by the C library."""
    import ctypes
    import socket

    step("datagram")
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        contextlib.suppress(OSError),
    ):
        datagrams.sendto(b"hello", ("192.0.2.1", 9))
    step("connection")
    with socket.socket(socket.AF_INET6) as connection, contextlib.suppress(OSError):
        connection.connect(("2001:db8::1", 443))
    step("name")
    ctypes.CDLL(None).gethostbyname(b"collector.example.com")
    step("file")
    (Path(os.environ["HOME"]) / ".device").write_text("1")
    step("loopback")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
    ):
        pass


if __name__ == "__main__":
    sessions = (verbs, serve, desk, runtime, adapters, attempts)
    {session.__name__: session for session in sessions}[sys.argv[1]]()
