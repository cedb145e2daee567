"""Trust in flows: bound to all they can execute, worth nothing elsewhere (reliability R58, R59)."""

import json
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from engine.errors import NotTrusted, StorageError
from engine.flow.abilities import executable_parts
from engine.flow.agent_check import is_ignored_override
from engine.flow.context import Context
from engine.flow.evaluator import IN_PROCESS
from engine.flow.flow_build import build_flow
from engine.flow.flow_check import check_flow
from engine.flow.flow_file import load_flow, read_flow, save_flow
from engine.flow.flow_spec import FlowSpec
from engine.flow_access import Access, FlowAccess
from engine.profile import ModelProfile
from engine.trust import TrustStore, digest_of

PLUGINS = "def f(values): return None\nPLUGINS = {'functions': {'f': f}, 'merges': {'m': f}, 'handlers': {'h': f}}\n"

DOCUMENT = {
    "format": "workbench.flow",
    "version": 1,
    "name": "Everything",
    "inputs": [{"key": "n", "type": "number"}, {"key": "letter", "type": "file", "default": "letter.txt"}],
    "start": "A",
    "agents": [
        {
            "name": "A",
            "type": "COMPLETION",
            "model": {"inline": {"modelProvider": "OAI_CHAT_COMPLETION", "url": "http://127.0.0.1:9/v1"}},
            "syntax": "jinja",
            "system_prompt": "{{ n }} in the role",
            "template": "{{ n }} in the prompt",
            "before": [{"set": "k", "to": "n + 1", "when": "n > 2"}, {"call": "f"}],
            "after": [{"delete": "k", "when": "n > 3"}, {"call": "f"}],
            "handler": {"type": "h"},
            "merge": {"type": "join", "key": "k", "template": "{{ n }} in the line", "sort_by": "n - 4"},
            "tools": ["calculator"],
            "routes": [{"when": "n > 5", "to": "B"}],
        },
        {
            "name": "B",
            "type": "COMPLETION",
            "template": "plain {{n}}",
            "merge": {"type": "best", "by": "n * 6"},
            "handler": {"type": "tools", "then": {"type": "h"}},
            "routes": [{"to": "C"}],
        },
        {"name": "C", "type": "COMPLETION", "merge": {"type": "m"}, "template": "x"},
        {"name": "D", "flow": "other.flow.json", "with": {"a": "{{n}}"}},
        {"name": "E", "pattern": "react", "with": {"a": "{{n}}"}},
    ],
    "editor": {"positions": {"A": [0, 0]}},
}
EXECUTABLE = [
    ("inputs", 1, "default"),
    ("agents", 0, "model", "inline", "url"),
    ("agents", 0, "system_prompt"),
    ("agents", 0, "template"),
    ("agents", 0, "before", 0, "to"),
    ("agents", 0, "before", 0, "when"),
    ("agents", 0, "before", 1, "call"),
    ("agents", 0, "after", 0, "when"),
    ("agents", 0, "after", 1, "call"),
    ("agents", 0, "handler", "type"),
    ("agents", 0, "merge", "template"),
    ("agents", 0, "merge", "sort_by"),
    ("agents", 0, "tools", 0),
    ("agents", 0, "routes", 0, "when"),
    ("agents", 1, "merge", "by"),
    ("agents", 1, "handler", "then", "type"),
    ("agents", 2, "merge", "type"),
    ("agents", 3, "flow"),
    ("agents", 3, "with", "a"),
    ("agents", 4, "with", "a"),
]


def changed(path: tuple[str | int, ...], change: Callable[[object], object]) -> FlowSpec:
    document = json.loads(json.dumps(DOCUMENT))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = change(place[path[-1]])
    return read_flow(json.dumps(document)).spec


def one_character(value: object) -> str:
    text = str(value)
    return text[:-1] + ("7" if text[-1] != "7" else "8")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "foreign" / "plugins").mkdir(parents=True)
    (tmp_path / "foreign" / "plugins" / "p.py").write_text(PLUGINS)
    path = tmp_path / "foreign" / "everything.flow.json"
    path.write_text(json.dumps(DOCUMENT))
    return path


@pytest.fixture
def decider(tmp_path: Path) -> FlowAccess:
    return FlowAccess(TrustStore(tmp_path / "home"))


def look(decider: FlowAccess, spec: FlowSpec, path: Path) -> Access:
    return decider.look_at(spec, path)


def test_one_character_of_anything_executable_asks_again(decider: FlowAccess, file: Path) -> None:
    spec = load_flow(file).spec
    assert look(decider, spec, file).trust.state == "foreign"
    decider.trust(look(decider, spec, file))
    assert look(decider, spec, file).trust.state == "trusted"
    for path in EXECUTABLE:
        access = look(decider, changed(path, one_character), file)
        assert access.trust.state == "changed", path
        assert "7" in access.trust.difference or "8" in access.trust.difference, path
        assert access.restricted
    assert look(decider, changed(("agents", 4, "pattern"), lambda _: "summary"), file).trust.state == "changed"
    for name in ("p.py", "helper.py"):
        (file.parent / "plugins" / name).write_text(PLUGINS + "# 7\n")
        assert look(decider, spec, file).trust.state == "changed"
        assert "# 7" in look(decider, spec, file).trust.difference
        (file.parent / "plugins" / name).unlink()
    (file.parent / "plugins" / "p.py").write_text(PLUGINS)
    assert look(decider, spec, file).trust.state == "trusted"


def test_every_text_that_is_evaluated_is_a_part() -> None:
    spec = read_flow(json.dumps(DOCUMENT)).spec
    texts = set(executable_parts(spec).values())
    for path in EXECUTABLE:
        value: object = DOCUMENT
        for key in path:
            value = value[key]  # type: ignore[index]
        assert any(str(value) in text for text in texts), path


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (("editor", "positions", "A"), lambda _: [70, 80]),
        (("name",), lambda _: "Another name"),
        (("agents", 1, "template"), lambda _: "plain text is only sent"),
        (("inputs", 0, "key"), lambda _: "m"),
        (("agents",), lambda agents: agents[::-1]),
    ],
)
def test_what_executes_nothing_does_not_ask(
    decider: FlowAccess, file: Path, path: tuple[str | int, ...], change: Callable[[object], object]
) -> None:
    decider.trust(look(decider, load_flow(file).spec, file))
    assert look(decider, changed(path, change), file).trust.state == "trusted"


def test_a_store_from_elsewhere_is_worth_nothing(decider: FlowAccess, file: Path, tmp_path: Path) -> None:
    spec = load_flow(file).spec
    decider.trust(look(decider, spec, file))
    home, other = tmp_path / "home", tmp_path / "other"
    shutil.copytree(home, other)
    assert look(FlowAccess(TrustStore(other)), spec, file).trust.state == "foreign"
    mine = FlowAccess(TrustStore(tmp_path / "mine"))
    mine.trust(look(mine, changed(("agents", 0, "template"), one_character), file))
    shutil.copy(home / "trust.json", tmp_path / "mine")
    assert look(mine, spec, file).trust.state == "foreign"


def test_a_forged_entry_is_worth_nothing(decider: FlowAccess, file: Path, tmp_path: Path) -> None:
    spec = load_flow(file).spec
    decider.trust(look(decider, spec, file))
    bad = changed(("agents", 0, "before", 1, "call"), one_character)
    store = tmp_path / "home" / "trust.json"
    text = store.read_text()
    good_digest = digest_of(look(decider, spec, file).parts)
    store.write_text(text.replace(good_digest, digest_of(look(decider, bad, file).parts)))
    assert look(decider, bad, file).trust.state == "foreign"
    for broken in ("", "{", "[]", '{"version": 1, "flows": [{}]}', text[:-20]):
        store.write_text(broken)
        assert look(decider, spec, file).trust.state == "foreign"
    decider.trust(look(decider, spec, file))
    assert look(decider, spec, file).trust.state == "trusted"


@pytest.mark.skipif(sys.platform == "win32", reason="no modes there")
def test_the_secret_is_for_its_owner_only(decider: FlowAccess, file: Path, tmp_path: Path) -> None:
    decider.trust(look(decider, load_flow(file).spec, file))
    for name in ("trust.key", "trust.json"):
        assert stat.S_IMODE((tmp_path / "home" / name).stat().st_mode) == 0o600
    (tmp_path / "home" / "trust.key").write_bytes(b"short")
    with pytest.raises(StorageError, match="damaged"):
        decider.trust(look(decider, load_flow(file).spec, file))


def test_trust_is_taken_back(decider: FlowAccess, file: Path) -> None:
    spec = load_flow(file).spec
    decider.trust(look(decider, changed(("agents", 0, "template"), one_character), file))
    decider.trust(look(decider, spec, file))
    assert decider.revoke(look(decider, spec, file))
    assert look(decider, spec, file).trust.state == "foreign"
    assert not decider.revoke(look(decider, spec, file))


def test_a_moved_file_stays_trusted_with_its_plug_ins(decider: FlowAccess, file: Path, tmp_path: Path) -> None:
    decider.trust(look(decider, load_flow(file).spec, file))
    moved = tmp_path / "moved"
    shutil.copytree(file.parent, moved)
    assert look(decider, load_flow(file).spec, moved / file.name).trust.state == "trusted"
    shutil.rmtree(moved / "plugins")
    assert not look(decider, load_flow(file).spec, moved / file.name).trust.trusted


def test_the_question_lists_what_it_can_do(decider: FlowAccess, file: Path) -> None:
    access = look(decider, load_flow(file).spec, file)
    told = [(ability.kind, ability.text) for ability in access.abilities]
    for kind, part in (
        ("code", '"f" of plugins/p.py'),
        ("code", 'merge "m" of plugins/p.py'),
        ("code", 'handler "h"'),
        ("host", "127.0.0.1:9"),
        ("folder", "letter.txt"),
        ("tool", "calculator"),
        ("expression", "9 expressions and templates"),
    ):
        assert any(kind == found and part in text for found, text in told), (kind, part, told)
    assert [ability.restricted for ability in access.abilities] == sorted(
        (ability.restricted for ability in access.abilities), reverse=True
    )


@pytest.mark.parametrize("default", ["/etc/passwd", "../x", "~/x", "C:\\x"])
def test_a_file_elsewhere_needs_trust(decider: FlowAccess, tmp_path: Path, default: str) -> None:
    document = {
        "format": "workbench.flow",
        "version": 1,
        "name": "F",
        "inputs": [{"key": "a", "type": "file", "default": default}],
        "agents": [{"name": "A", "type": "COMPLETION", "template": "{{a}}"}],
    }
    access = decider.look_at(read_flow(json.dumps(document)).spec, tmp_path / "f.flow.json")
    assert access.restricted
    document["inputs"] = [{"key": "a", "type": "file", "default": "beside.txt"}]
    assert not decider.look_at(read_flow(json.dumps(document)).spec, tmp_path / "f.flow.json").restricted


def simple(**agent: object) -> FlowSpec:
    whole = {
        "format": "workbench.flow",
        "version": 1,
        "name": "F",
        "inputs": [{"key": "n"}],
        "agents": [
            {
                key: value
                for key, value in ({"name": "A", "type": "COMPLETION", "template": "x"} | agent).items()
                if value
            }
        ],
    }
    return read_flow(json.dumps(whole)).spec


async def test_what_runs_without_trust(decider: FlowAccess, file: Path) -> None:
    plain, jinja, code = simple(), simple(syntax="jinja"), simple(before=[{"call": "f"}])
    assert decider.look_at(plain, file).trust.state == "harmless"
    assert not decider.look_at(jinja, file).restricted
    decider.build(plain, file)
    foreign = decider.build(jinja, file).agents[0]
    prompt = foreign.prompt(Context({"n": "1"}))
    assert not isinstance(prompt, tuple)  # it is asked of another process
    assert await prompt == ((), ("x",))
    with pytest.raises(NotTrusted, match=r'needs your trust: Runs the function "f" of plugins/p\.py') as caught:
        decider.build(code, file)
    assert "workbench trust" in caught.value.hint
    decider.build(code, file, once=True)
    with pytest.raises(NotTrusted):
        decider.build(code, file)
    decider.trust(decider.look_at(code, file))
    decider.build(code, file)
    decider.trust(decider.look_at(jinja, file))
    assert isinstance(decider.build(jinja, file).agents[0].prompt(Context({"n": "1"})), tuple)
    await decider.aclose()


async def test_what_was_trusted_runs_though_the_folder_changes_meanwhile(decider: FlowAccess, file: Path) -> None:
    spec = simple(before=[{"call": "f"}])
    (file.parent / "plugins" / "p.py").write_text(PLUGINS.replace("None", "{'n': 'seen'}"))
    decider.trust(decider.look_at(spec, file))
    flow = decider.build(spec, file)
    (file.parent / "plugins" / "p.py").write_text(PLUGINS.replace("None", "{'n': 'other'}"))
    context = Context({"n": "1"})
    result = flow.agents[0].before(context)
    assert result is not None
    await result
    assert context["n"] == ["seen"]
    await decider.aclose()


@pytest.mark.parametrize(
    "key", ["url", "urls", "interfaceUrl", "apiKey", "header.X", "proxy", "caFile", "verify", "trusted", "approved"]
)
def test_a_flow_sets_neither_address_nor_key_nor_trust(key: str) -> None:
    spec = simple(model={"category": "M", "overrides": {key: "http://evil.example"}})
    (problem,) = [problem for problem in check_flow(spec) if key in problem.path]
    assert problem.severity == "warning"
    assert "ignored" in problem.message
    assert is_ignored_override(key)
    assert build_flow(spec).agents[0].overrides == {}
    if key in ("url", "urls", "interfaceUrl"):
        return
    inline = {"modelProvider": "OAI_CHAT_COMPLETION", "url": "http://127.0.0.1:9/v1", key: "x"}
    inline |= {"maxTokens": 5, "temperature": 0, "topP": 1}
    spec = simple(model={"inline": inline})
    (problem,) = [problem for problem in check_flow(spec) if key in problem.path]
    assert problem.severity == "warning"
    profile = build_flow(spec).agents[0].profile
    assert isinstance(profile, ModelProfile)
    assert (profile.api_key, dict(profile.options.headers)) == ("", {})


@pytest.mark.parametrize("key", ["trusted", "trust", "approved", "allow_tools", "plugins_trusted"])
def test_a_flow_cannot_say_it_is_trusted(decider: FlowAccess, file: Path, key: str) -> None:
    document = json.loads(file.read_text()) | {key: True}
    document["agents"][0] |= {key: True}
    document["editor"] |= {key: True}
    loaded = read_flow(json.dumps(document))
    assert sum(f'The field "{key}" is unknown' in problem.message for problem in loaded.problems) == 3
    assert look(decider, loaded.spec, file).restricted


def test_saving_and_reading_keep_trust(decider: FlowAccess, file: Path) -> None:
    spec = load_flow(file).spec
    decider.trust(look(decider, spec, file))
    save_flow(msgspec.structs.replace(spec, description="said differently"), file)
    assert look(decider, load_flow(file).spec, file).trust.state == "trusted"
    assert IN_PROCESS.suspends is False


def test_a_flow_inside_is_part_of_what_was_trusted(decider: FlowAccess, file: Path) -> None:
    inside = file.parent / "inner" / "one.flow.json"
    inside.parent.mkdir()
    document = json.loads(json.dumps(DOCUMENT))
    document["agents"] = [{"name": "X", "type": "COMPLETION", "template": "x", "before": [{"call": "f"}]}]
    inside.write_text(json.dumps(document))
    outer = simple(type=None, template="", flow="inner/one.flow.json")
    access = decider.look_at(outer, file)
    assert access.restricted
    assert any('"f" of plugins/p.py' in ability.text for ability in access.abilities)
    decider.trust(access)
    assert decider.look_at(outer, file).trust.state == "trusted"
    document["description"] = "other words"
    inside.write_text(json.dumps(document))
    assert decider.look_at(outer, file).trust.state == "trusted"
    document["agents"][0]["before"][0]["when"] = "n > 7"
    inside.write_text(json.dumps(document))
    changed_access = decider.look_at(outer, file)
    assert changed_access.trust.state == "changed"
    assert "n > 7" in changed_access.trust.difference
