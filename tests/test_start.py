"""What the command imports before it answers: nothing that the verb does not use."""

import json
import subprocess
import sys

import pytest

STANDARD = {*sys.stdlib_module_names, "__mp_main__", "_distutils_hack", "distutils-precedence", "sitecustomize"}
OF_TYPER = {"typer", "rich", "shellingham", "annotated_doc", "click", "typing_extensions", "markdown_it", "mdurl", "pygments"}
OF_SEARCH = {"filelock", "msgspec", "numpy", "onnxruntime", "platformdirs", "rapidfuzz", "safetensors", "threadpoolctl", "tokenizers"}
OF_SERVER = {"anyio", "fastapi", "h11", "httptools", "idna", "prometheus_client", "sniffio", "starlette", "uvicorn", "uvloop", "annotated_doc", "multipart", "python_multipart", "opentelemetry", "cryptography", "websockets"}
REPORT = """
import atexit, json, sys
SLOW = {"importlib.metadata", "numpy.ma"}
def report():
    names = {name.partition(".")[0] for name in sys.modules} | (sys.modules.keys() & SLOW)
    rooms = {name.split(".")[1] for name in sys.modules if name.startswith("rejoinder.")}
    print("\\nIMPORTED " + json.dumps([sorted(names), sorted(rooms)]))
atexit.register(report)
"""


def imported(folder, *words):
    """Libraries and rooms that a verb has imported when it ends."""
    code = f"{REPORT}\nsys.argv = ['rejoinder', *{list(words)!r}]\nfrom rejoinder.cli.start import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("IMPORTED"))
    names, rooms = json.loads(line.removeprefix("IMPORTED "))
    libraries = {name for name in names if not name.startswith(("_", "__editable"))} - STANDARD - {"rejoinder"}
    return libraries, set(rooms)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    (folder / "replies.txt").write_text("We open at nine.\nYour refund is on its way.\n")
    command = [sys.executable, "-m", "rejoinder", "index", "build", "bi-small", "replies.txt", "-o", "index"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_imports_typer_alone(folder, words):
    libraries, rooms = imported(folder, *words)
    assert libraries <= OF_TYPER
    assert rooms == {"cli", "errors", "memory", "progress", "telemetry"}


# Python 3.11 makes a RuntimeError of what is raised while a class is made.
@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "RuntimeError('in a class') from KeyboardInterrupt()"])
@pytest.mark.parametrize("module", ["rejoinder.cli.shell", "typer", "rejoinder.cli.app", "rejoinder.cli.replies.verbs"])
def test_ctrl_c_during_the_imports_ends_in_one_line(tmp_path, module, raised):
    code = f"""
import sys
class Interrupting:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            raise {raised}
sys.meta_path.insert(0, Interrupting)
sys.argv = ["rejoinder", "reply", "index", "Hi!"]
from rejoinder.cli.start import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    line = "rejoinder: interrupted; no half-written output is left\n"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", line)


def test_a_reply_imports_what_searches(folder):
    libraries, rooms = imported(folder, "reply", "index", "When do you open?")
    assert libraries <= OF_TYPER | OF_SEARCH, "pydantic converts no plain options"
    assert "onnxruntime" in libraries
    assert not rooms & {"networks", "training", "evaluation", "intents", "serving", "integrations", "cluster", "devices", "settings", "curation"}


@pytest.mark.skipif(sys.platform == "win32", reason="a process of Windows gets no SIGTERM")
def test_a_server_imports_what_answers(folder):
    pytest.importorskip("uvicorn")
    words = ["serve", "index", "--port", "0", "--json"]
    code = f"{REPORT}\nsys.argv = ['rejoinder', *{words!r}]\nfrom rejoinder.cli.start import main\nif __name__ == '__main__':\n    main()"
    (folder / "server.py").write_text(code)
    server = subprocess.Popen([sys.executable, "server.py"], cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert "url" in json.loads(server.stdout.readline())
        server.terminate()
        shown, _ = server.communicate(timeout=60)
    finally:
        server.kill()
    line = [line for line in shown.splitlines() if line.startswith("IMPORTED")][-1]
    names, rooms = json.loads(line.removeprefix("IMPORTED "))
    heavy = {"torch", "pyarrow", "scipy", "sklearn", "transformers", "matplotlib", "faiss", "pandas", "ray", "onnx"}
    assert not heavy & set(names)
    assert not {"networks", "training", "integrations", "cluster", "devices"} & set(rooms)
