"""The files of deploy/ hold to the code: commands, probes, variables, metrics; and to each other."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from rejoinder.serving.responses import Metrics
from tests.test_documented_commands import APP, Command, check

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(DEPLOY.iterdir())}
EVERYTHING = "\n".join([*TEXTS.values(), (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")])


def loaded(name):
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all(TEXTS[name]))


def serving(words):
    check(Command("deploy", tuple(words), whole=True), ROOT)
    assert words[0] == "serve"


def test_the_commands_are_ours():
    dockerfile = TEXTS["Dockerfile"]
    assert json.loads(re.search(r"^ENTRYPOINT (.*)$", dockerfile, re.MULTILINE)[1]) == ["rejoinder"]
    serving(json.loads(re.search(r"^CMD (.*)$", dockerfile, re.MULTILINE)[1]))
    program, *words = shlex.split(
        re.search(r"^ExecStart=(.*)$", TEXTS["rejoinder.service"], re.MULTILINE)[1]
    )
    assert Path(program).name == "rejoinder"
    serving(words)
    for deployment in (loaded("kubernetes.yaml")[1], loaded("kubernetes.servers.yaml")[0]):
        serving(deployment["spec"]["template"]["spec"]["containers"][0]["args"])
    (compose,) = loaded("compose.servers.yaml")
    words = compose["services"]["one"]["command"]
    serving([re.sub(r"\$\{INDEX:-(.*)\}", r"\1", word) for word in words])


def test_variables_and_extras_are_known():
    told = APP.commands["serve"].help
    assert {"REJOINDER_READ_KEY", "REJOINDER_WRITE_KEY"} == set(
        re.findall(r"REJOINDER_\w+_KEY", EVERYTHING)
    )
    assert all(name in told for name in re.findall(r"REJOINDER_\w+_KEY", EVERYTHING))
    for path in re.findall(r"^COPY (?!--from)(.*) \S+$", TEXTS["Dockerfile"], re.MULTILINE):
        for each in path.split():
            assert (ROOT / each).exists()
            assert f"!{each}" in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


def test_metrics_are_measured():
    parser = pytest.importorskip("prometheus_client.parser")
    metrics = Metrics()
    metrics.observe_request("/v1/replies", "POST", 200, 0.01)
    metrics.observe_batch(1, 0.01, 0)
    metrics.observe_failure("sharing answers")
    metrics.observe_notes(["unread"])
    text = metrics.text("index", "model", 1).decode()
    families = parser.text_string_to_metric_families(text)
    there = {sample.name: set(sample.labels) for family in families for sample in family.samples}
    queries = [
        target["expr"]
        for panel in json.loads(TEXTS["grafana.json"])["panels"]
        for target in panel["targets"]
    ]
    asked = re.findall(r"\b(rejoinder_[a-z_]+)(?:\{(.*?)\})?", "\n".join([*queries, EVERYTHING]))
    assert len(asked) > 15
    for name, labels in asked:
        assert name in there
        assert set(re.findall(r'(\w+)[=!]~?"', labels)) <= there[name]


@pytest.mark.parametrize(
    ("name", "place"), [("kubernetes.yaml", 1), ("kubernetes.servers.yaml", 0)]
)
def test_probes_and_users_agree(name, place):
    pod = loaded(name)[place]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    paths = {
        container[f"{kind}Probe"]["httpGet"]["path"]
        for kind in ("startup", "readiness", "liveness")
    }
    asked = paths | set(re.findall(r"http://127.0.0.1:8000(/\w+)", TEXTS["Dockerfile"]))
    assert asked == {"/health", "/ready"}
    user = re.search(r"^USER (\d+):", TEXTS["Dockerfile"], re.MULTILINE)[1]
    assert user == str(pod["securityContext"]["runAsUser"])
    assert container["resources"]["limits"]["cpu"] == "2" == container["env"][-1]["value"]


@pytest.mark.parametrize(
    ("name", "servers"), [("compose.yaml", ["rejoinder"]), ("compose.servers.yaml", ["one", "two"])]
)
def test_composed_services_agree(name, servers):
    (compose,) = loaded(name)
    for server in servers:
        service = compose["services"][server]
        assert service["environment"]["OMP_NUM_THREADS"] == str(service["cpus"])
    assert all(
        (DEPLOY / each["file"]).is_file() for each in compose["configs"].values() if "file" in each
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_takes_the_unit(tmp_path):
    unit = tmp_path / "rejoinder.service"
    unit.write_text(
        TEXTS["rejoinder.service"].replace("/opt/rejoinder/bin/rejoinder", "/bin/true"),
        encoding="utf-8",
    )
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
