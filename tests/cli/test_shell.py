"""Exit codes, one-line errors, one JSON object: what every verb promises to the shell."""

import collections
import errno
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

import rejoinder
from rejoinder.cli.lab import verbs as lab
from rejoinder.cli.app import SECTIONS, app, name_of
from rejoinder.cli.shell import emit, guarded
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.files import atomic_file

MOST_OPTIONS = 12
MOST_PARAMETERS = 253  # of all verbs together, without the --json that each has
runner = CliRunner()


def verbs_of(command, words=()):
    """Yield the words and the command of every verb."""
    for name, each in getattr(command, "commands", {}).items():
        yield from verbs_of(each, (*words, name))
    if not hasattr(command, "commands"):
        yield words, command


COMMANDS = dict(verbs_of(typer.main.get_command(app)))
GROUPS = sorted({words[:-1] for words in COMMANDS})
ALLOCATOR = """[enforce fail at alloc_cpu.cpp:126] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to \
allocate 9000000000000 bytes. Error code 12 (Cannot allocate memory)
Exception raised from alloc_cpu"""


def chained(outer, inner):
    outer.__context__ = inner
    return outer


def raising(error):
    return Mock(side_effect=error, __name__="verb")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InputError("chats.jsonl:3: turn 2 is null, not text"), 2, "chats.jsonl:3: turn 2 is null"),
        (InputError("two\nlines"), 2, "two lines"),
        (
            MissingExtraError("the corpus", "demo"),
            2,
            "the extra 'demo': pip install 'chitchat-dataset>=0.9'",
        ),
        (KeyboardInterrupt(), 130, "interrupted; no half-written output is left"),
        (
            OSError(errno.ENOSPC, "No space left on device", "run/model"),
            1,
            "no space left to write run/model",
        ),
        (
            OSError(errno.EDQUOT, "Disk quota exceeded", "run/model"),
            1,
            "no space left to write run/model",
        ),
        (RuntimeError("I/O error: No space left on device (os error 28)"), 1, "no space left"),
        (
            chained(ValueError("closed file"), OSError(errno.ENOSPC, "x", "run")),
            1,
            "no space left to write run",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "run/model"),
            1,
            "Permission denied: run/model;",
        ),
        (OSError("a library's own words"), 1, "a library's own words"),
        (
            MemoryError("Unable to allocate 40 GiB"),
            1,
            "not enough memory: Unable to allocate 40 GiB",
        ),
        (
            RuntimeError(ALLOCATOR),
            1,
            "error: not enough memory: tried to allocate 9000000000000 bytes; give less",
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0"),
            1,
            "error: not enough memory: tried to allocate 2.00 gib; give less",
        ),
        (chained(ValueError("shape"), MemoryError()), 1, "error: not enough memory; give less"),
        (ZeroDivisionError("division by zero"), 1, "REJOINDER_DEBUG=1"),
        (
            ModuleNotFoundError("No module named 'torch'", name="torch"),
            2,
            "this needs PyTorch, which is not installed: pip install 'rejoinder[torch]'",
        ),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"), 2, "not UTF-8"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, BaseException) else None,
)
def test_every_error_is_one_line_and_a_code(error, code, words, capsys):
    with pytest.raises(SystemExit) as end:
        guarded(raising(error))()
    out, err = capsys.readouterr()
    assert (end.value.code, out, err.count("\n")) == (code, "", 1)
    assert words in err
    assert err.startswith("rejoinder: ")


def test_debug_shows_the_traceback_above_the_line(monkeypatch, capsys):
    monkeypatch.setenv("REJOINDER_DEBUG", "1")
    with pytest.raises(SystemExit):
        guarded(raising(InputError("no such file")))()
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert err.endswith("rejoinder: error: no such file\n")


@pytest.mark.parametrize(
    "end", [typer.Exit(3), typer.Abort(), typer.BadParameter("no"), SystemExit(4)]
)
def test_typer_ends_the_command_its_own_way(end):
    with pytest.raises(type(end)) as caught:
        guarded(raising(end))()
    assert caught.value is end


def test_json_is_exactly_one_object(capsys, tmp_path):
    result = {
        "recall": np.float32(0.5),
        "ranks": np.arange(3),
        "run": tmp_path,
        "reply": "Grüße 👋\n",
        "pair": (1, 2),
    }
    emit(result, True, lambda _: pytest.fail("people get no text with --json"))
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    plain = {"recall": 0.5, "ranks": [0, 1, 2], "run": str(tmp_path), "pair": [1, 2]}
    assert json.loads(out) == result | plain


def test_a_number_that_json_has_not_is_never_printed():
    with pytest.raises(ValueError, match="not JSON compliant"):
        emit({"precision": float("nan")}, True, str)


def test_the_version_an_unknown_verb_and_an_unknown_option():
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"rejoinder {rejoinder.__version__}\n")
    assert runner.invoke(app, ["anser"]).exit_code == 2
    for words in COMMANDS:
        result = runner.invoke(app, [*words, "--no-such-option"])
        assert (result.exit_code, "--no-such-option" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("reply i hi --minimum-confidence 80", "--minimum-confidence 80: give a number from 0 to 1"),
        ("serve i --port 80000", "--port 80000: give a whole number from 0 to 65535"),
        ("evaluate bm25 --candidates 1", "--candidates 1: give a number of 2 or more, or all"),
        ("index delete i one", "POSITION... one: give a whole number"),
        ("rply", "no such command 'rply'. Did you mean 'reply'? (`rejoinder -h` shows all)"),
        ("index calibrate", "no such command 'calibrate' (`rejoinder index -h` shows all)"),
        ("intents predict", "missing argument 'CLASSIFIER' (`rejoinder intents predict -h` shows all)"),
    ],
)
def test_a_wrong_command_line_is_told_in_one_line(line, said, command):
    assert command(*line.split()) == (2, "", f"rejoinder: error: {said}\n")


def test_the_help_is_one_screen_without_a_cut_summary():
    result = runner.invoke(app, ["--help"], terminal_width=80)
    lines = result.output.splitlines()
    assert len(lines) <= 40
    assert "..." not in "".join(lines[1:])
    for verbs in SECTIONS.values():
        for verb, summary in verbs.items():
            assert any(
                line.split()[:1] == [name_of(verb)] and line.endswith(summary) for line in lines
            ), summary
    named = {name_of(verb) for verbs in SECTIONS.values() for verb in verbs}
    assert named == {words[0] for words in COMMANDS}


def test_no_summary_of_the_lab_is_cut():
    result = runner.invoke(app, ["lab", "--help"], terminal_width=80)
    commands = result.output.partition("Commands:")[2]
    assert len(commands.partition("Example:")[0].strip().splitlines()) == len(lab.VERBS)
    assert "..." not in commands
    for name in lab.VERBS.values():
        assert name.__name__ not in typer.main.get_command(app).commands, "no spelling of before"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_verb_has_more_options_than_a_reader_takes_in(words):
    """But for --json, which every verb has."""
    options = [each.opts[0] for each in COMMANDS[words].params if each.param_type_name == "option"]
    options.remove("--json")
    assert len(options) <= MOST_OPTIONS, options


def test_the_command_has_no_more_parameters_than_are_known():
    counts = {
        " ".join(words): sum("--json" not in each.opts for each in command.params)
        for words, command in COMMANDS.items()
    }
    assert sum(counts.values()) <= MOST_PARAMETERS, counts


def test_the_documents_name_the_verbs_that_choose_a_device():
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    named = page.partition("have `--device auto`: ")[2].partition(".")[0]
    verbs = {
        " ".join(words)
        for words, command in COMMANDS.items()
        if any(each.name == "device" and each.default == "auto" for each in command.params)
    }
    assert verbs == set(re.findall("`([^`]+)`", named))


def test_an_option_means_one_thing_in_every_verb():
    """The same name takes the same kind of value; of places it says what is there."""
    places = {"--output", "--data", "--intents", "--report"}
    kinds = collections.defaultdict(set)
    for command in COMMANDS.values():
        for each in command.params:
            names = [name for name in each.opts if name.startswith("--")]
            for name in set(names) - places:
                kinds[name].add((each.metavar or "").removesuffix("|all"))
    assert {name: sorted(found) for name, found in kinds.items() if len(found) > 1} == {}
    words = collections.defaultdict(set)
    for command in COMMANDS.values():
        for each in command.params:
            if {"--history", "--sample", "--limit", "--context"} & set(each.opts):
                words[each.opts[0]].add(re.sub(r"(random|earlier).*", r"\1", each.help or ""))
    assert len(words["--sample"]) == 1
    assert len(words["--context"]) == 1


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_of_every_verb_has_an_example_and_json(words):
    result = runner.invoke(app, [*words, "--help"], terminal_width=200)
    assert result.exit_code == 0
    assert f"rejoinder {' '.join(words)} " in result.output.partition("Example")[2]
    assert "--json" in result.output


def test_every_help_is_short_for_h_and_has_no_types_of_python():
    for words in [*GROUPS, *COMMANDS]:
        short, whole = (
            runner.invoke(app, [*words, each], terminal_width=100) for each in ("-h", "--help")
        )
        assert (short.exit_code, short.output) == (0, whole.output)
        assert not re.search(r"list\[|<(str|path|int|float)\b| range>", whole.output), words


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("rejoinder ev", ["evaluate"]),
        ("rejoinder lab few", ["few-shot"]),
        ("rejoinder index re", ["reencode"]),
        ("rejoinder evaluate --rep", ["--replies"]),
    ],
)
def test_the_shell_completes_verbs_and_options(typed, offered):
    settings = {
        "_REJOINDER_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    out, err = run("main()", **settings).communicate(timeout=60)
    assert (out.decode().split(), err) == (offered, b"")


def run(code, **settings):
    """Start Python code in a process of its own, with `main` imported."""
    return subprocess.Popen(
        [sys.executable, "-c", "from rejoinder.cli.start import main\n" + textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **settings},
    )


SLOW_VERB = """
    import time
    from pathlib import Path
    from rejoinder.cli.shell import guarded
    from rejoinder.files import atomic_file
    @guarded
    def verb():
        with atomic_file("table") as part:
            part.write_text("half")
            print("ready", flush=True)
            time.sleep(30)
    verb()
"""


def test_ctrl_c_ends_in_one_line_and_leaves_the_old_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with atomic_file("table") as part:
        part.write_text("old")
    process = run(SLOW_VERB)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, b"")
    assert err.count(b"\n") == 1
    assert b"Traceback" not in err
    assert [each.name for each in tmp_path.iterdir()] == ["table"]
    assert Path("table").read_text() == "old"


MAIN = [sys.executable, "-c", "from rejoinder.cli.start import main; main()"]


def test_a_reader_that_goes_away_is_no_error_message():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [*MAIN, "--version"], stdout=closed, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_under_standard_output_is_one_line():
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*MAIN, "--help"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"rejoinder: error: no space left")
    assert done.stderr.count(b"\n") == 1


def test_a_terminal_of_few_letters_gets_codes_instead_of_an_error():
    code = """
        import rejoinder.cli.app as module
        module.app = lambda prog_name: print("caf\\u00e9 \\U0001f44b")
        main()
    """
    out, err = run(code, PYTHONIOENCODING="latin-1", PYTHONUTF8="0").communicate(timeout=20)
    assert (out, err) == ("café \\U0001f44b\n".encode("latin-1"), b"")


@pytest.mark.skipif(sys.platform == "win32", reason="shells of Unix close streams so")
@pytest.mark.parametrize("closed", ["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">&- 2>&-"])
def test_a_stream_that_the_shell_closed_is_no_failure(closed):
    command = f'"{sys.executable}" -m rejoinder list recipes {closed}'
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (">&-" not in closed.split())


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of Unix")
@pytest.mark.parametrize("broken", ["stdout", "stderr"])
def test_a_reader_that_has_gone_is_no_traceback(broken, tmp_path):
    words = ["list", "recipes"] if broken == "stdout" else ["reply", str(tmp_path / "none"), "Hi!"]
    command = [sys.executable, "-m", "rejoinder", *words]
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, broken: writer}
    done = subprocess.run(command, **streams, text=True, timeout=60, check=False)
    os.close(writer)
    assert done.returncode in (1, 2) if broken == "stdout" else 2
    assert not (done.stdout or "") + (done.stderr or "")
