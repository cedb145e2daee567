"""Offline proven: with the lock on, a run on the embedded model reaches this machine only, its processes included."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_embedded_model import pytestmark as needs_model
from tests.helpers.model_answers import flow_file

pytestmark = needs_model

ROOT = Path(__file__).parents[2]
HOOK = """
import os, sys

def note(event, arguments, seen=os.environ["REACHED"]):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo"):
        told = arguments[0] if event == "socket.getaddrinfo" else arguments[-1]
        with open(seen, "a") as file:
            file.write(repr(told) + "\\n")

sys.addaudithook(note)
"""
"""Python calls it before it connects, sends or looks up a name; every process of ours loads it."""
LOOPBACK_UP = """
import fcntl, os, socket, struct, sys

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 0x41))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Switches loopback of a new network namespace on (SIOCSIFFLAGS, IFF_UP | IFF_RUNNING), then runs a command."""
NAMESPACE = ("unshare", "--map-root-user", "--net")


def in_namespace() -> list[str]:
    """What puts a command into a network without any device but loopback; empty where the system forbids it."""
    if shutil.which(NAMESPACE[0]) is None:
        return []
    probe = [*NAMESPACE, sys.executable, "-c", LOOPBACK_UP, "-c", "pass"]
    allowed = subprocess.run(probe, capture_output=True, check=False, timeout=60).returncode == 0
    return [*NAMESPACE, sys.executable, "-c", LOOPBACK_UP] if allowed else [sys.executable]


def hosts(reached: Path) -> set[str]:
    """Where the processes wanted to go; sockets of files aside."""
    found = [ast.literal_eval(line) for line in reached.read_text().splitlines()]
    pairs = [one[0] if isinstance(one, tuple) else one for one in found]
    return {one.decode() if isinstance(one, bytes) else str(one) for one in pairs if not str(one).startswith("/")}


@pytest.fixture
def reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(HOOK)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "hook"), str(ROOT)]))
    monkeypatch.setenv("REACHED", str(tmp_path / "reached"))
    (tmp_path / "reached").touch()
    return tmp_path / "reached"


def workbench(home: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [*(in_namespace() or [sys.executable]), "-m", "workbench", "--offline", "--data-dir", str(home)]
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=240, cwd=ROOT
    )


def test_a_run_on_the_embedded_model_needs_and_asks_nobody_else(reached: Path, tmp_path: Path) -> None:
    flow = flow_file(tmp_path / "one.flow.json", {"name": "A", "template": "Say hello."})
    done = workbench(tmp_path / "home", "run", flow, "--json", "--profile", "embedded-chat")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["status"], document["statistics"]["requests"]) == ("finished", 1)
    assert hosts(reached) <= {"127.0.0.1", "localhost", "::1"}
    assert hosts(reached)  # the hook was there: the embedded server itself was seen


def test_a_profile_that_points_elsewhere_is_refused_by_name_before_anything_is_looked_up(
    reached: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / "profiles").mkdir(parents=True)
    (home / "profiles" / "far.properties").write_text(
        "modelProvider=OAI_CHAT_COMPLETION\nmodelName=m\nurl=https://models.example/v1\n"
        "maxTokens=10\ntemperature=0\ntopP=1\n"
    )
    flow = flow_file(tmp_path / "one.flow.json", {"name": "A", "template": "Say hello."})
    done = workbench(home, "run", flow, "--profile", "far")
    assert done.returncode != 0
    assert "far" in done.stderr
    assert "offline" in done.stderr.lower()
    assert hosts(reached) <= {"127.0.0.1", "localhost", "::1"}
