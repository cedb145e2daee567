"""Looking at flows starts nothing, whatever their texts say (reliability R57)."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PAYLOADS = [
    "{{ 7 * 7 }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% include '/etc/passwd' %}",
    "{{ cycler.__init__.__globals__.os.popen('touch payload').read() }}",
    "9**(9**9)",
    "''.__class__",
    "range(10**9) | list",
    "[[payload]]",
    "{{{payload}}}",
    "$(touch payload)",
    "`touch payload`",
    "; touch payload;",
    "| touch payload",
    "__import__('os').system('touch payload')",
    "exec(open('payload').read())",
    "import payload",
    "payload",
    "payload:main",
    "payload.module",
    "/etc/passwd",
    "../../../../etc/passwd",
    "~/.ssh/id_rsa",
    "file:///etc/passwd",
    "\\\\192.0.2.1\\share\\payload",
    "http://192.0.2.1/payload",
    "https://192.0.2.1/payload.png",
    "<img src='http://192.0.2.1/payload.png'>",
    "<img src='file:///etc/passwd'>",
    "![x](http://192.0.2.1/payload.png)",
    "<script>fetch('http://192.0.2.1')</script>",
    "<style>@import url(http://192.0.2.1/p.css)</style>",
    "<svg onload=alert(1)><image href='http://192.0.2.1/p'/></svg>",
    "data:text/html,<script>1</script>",
    "%s%n%x{0.__class__}",
    "\x1b]0;title\x07\x1b[2J",
    "\u202egnp.exe",
    "<!DOCTYPE x [<!ENTITY y SYSTEM 'file:///etc/passwd'>]>",
    "x" * 20_000,
    "C:\\Windows\\System32\\calc.exe",
]
FIXED = {"format", "version", "syntax", "modelProvider", "start", "to", "state", "grader", "pattern", "skip"}
KINDS = {"text", "file", "choice", "COMPLETION", "START_CONVERSATION_WITH_SYSTEM_PROMPT"}
"""Fields whose values come from a list or name an agent: they stay, so that the flow opens."""


def document() -> dict[str, object]:
    """A flow with every field that holds a text."""
    operation = {"set": "k", "to": "n", "when": "n"}
    return {
        "format": "workbench.flow",
        "version": 1,
        "name": "n",
        "description": "d",
        "inputs": [
            {"key": "n", "type": "text", "help": "h", "default": "x"},
            {"key": "f", "type": "file", "default": "x"},
            {"key": "c", "type": "choice", "choices": ["x"], "default": "x"},
        ],
        "outputs": ["o"],
        "start": "A",
        "agents": [
            {
                "name": "A",
                "type": "START_CONVERSATION_WITH_SYSTEM_PROMPT",
                "model": {"inline": {"modelProvider": "OAI_CHAT_COMPLETION", "url": "u", "modelName": "m"}},
                "syntax": "jinja",
                "system_prompt": "s",
                "template": "t",
                "few_shot": [{"user": "u", "assistant": "a", "reasoning": "r"}],
                "before": [operation, {"call": "payload"}, {"delete": "k", "when": "n"}],
                "after": [operation, {"call": "payload"}],
                "stop": ["x"],
                "tools": ["payload"],
                "images": ["i"],
                "handler": {"type": "text", "key": "k", "extra": "x"},
                "merge": {"type": "join", "key": "k", "template": "t", "separator": "s", "header": "h", "sort_by": "n"},
                "routes": [{"when": "n", "to": "B"}],
            },
            {"name": "B", "type": "COMPLETION", "model": {"profile": "p", "overrides": {"url": "u"}}, "template": "t"},
            {"name": "C", "flow": "sub.flow.json", "with": {"a": "b"}, "outputs": {"a": "b"}},
            {"name": "D", "grader": "AnswerGrader2", "with": {"question": "q", "answer": "a"}},
            {
                "name": "E",
                "type": "COMPLETION",
                "template": "t",
                "handler": {"type": "payload"},
                "merge": {"type": "m"},
            },
        ],
        "editor": {"frames": [{"title": "f", "comment": "c"}], "positions": {"A": [0, 0]}},
        "trusted": "yes",
        "command": "c",
    }


def filled(value: object, payload: Callable[[str], str], key: str = "") -> object:
    if isinstance(value, dict):
        return {name: filled(entry, payload, name) for name, entry in value.items()}
    if isinstance(value, list):
        return [filled(entry, payload, key) for entry in value]
    fixed = key in FIXED or (key == "type" and value in KINDS)
    named = key == "name" and value in ("A", "B", "C", "D", "E")
    return value if not isinstance(value, str) or fixed or named else payload(value)


@pytest.mark.skipif(sys.platform != "linux", reason="the watch on processes reads /proc")
@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.soak)])
def test_looking_at_flows_starts_nothing(tmp_path: Path, every: int) -> None:
    flows = tmp_path / "flows"
    (flows / "plugins").mkdir(parents=True)
    mark = tmp_path / "ran"
    source = f"open({str(mark)!r}, 'w')\ndef f(v): ...\n"
    source += "PLUGINS = {'functions': {'payload': f}, 'tools': {'payload': f}}\n"
    (flows / "plugins" / "payload.py").write_text(source)
    for index, payload in enumerate(PAYLOADS):
        whole = filled(document(), lambda _, text=payload: text)  # type: ignore[misc]
        (flows / f"{index:02}.flow.json").write_text(json.dumps(whole), encoding="utf-8")
    environment = os.environ | {
        "QT_QPA_PLATFORM": "offscreen",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PYTHONSAFEPATH": "1",
    }
    child = subprocess.run(
        [sys.executable, "-m", "tests.helpers.foreign_flows_child", str(flows), str(every)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert child.returncode == 0, child.stderr[-3000:]
    seen = json.loads(child.stdout.splitlines()[-1])
    assert seen["flows"] == len(PAYLOADS) == 40
    assert seen["events"] == []
    assert seen["children"] == []
    assert not mark.exists()
    assert not (tmp_path / "payload").exists()
