"""Plug-ins of packages and folders: found without running them, run where they belong, their faults told by name."""

import json
import sys
import textwrap
import time
import tomllib
from pathlib import Path

import pytest

from engine import plugins as plugins_module
from engine.errors import FlowInvalid, PluginError
from engine.flow.context import Context
from engine.flow.executor import Walk
from engine.flow.flow_build import build_flow
from engine.flow.flow_check import check_flow
from engine.flow.flow_file import load_flow, read_flow
from engine.flow.flow_inputs import inputs_context
from engine.flow.flow_spec import FlowSpec
from engine.plugin_folder import MAX_FILES, PluginFolder
from engine.plugins import Plugins, folder_workers
from tests.helpers.installed_plugins import install
from tests.helpers.scripted_completer import Answers, ScriptedCompleter

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "plugins"


def flow(*agents: dict[str, object]) -> FlowSpec:
    whole = {
        "format": "workbench.flow",
        "version": 1,
        "name": "F",
        "inputs": [{"key": "text", "type": "list"}],
        "agents": [{"type": "COMPLETION", "template": "[[text]]", **agent} for agent in agents],
    }
    return read_flow(json.dumps(whole)).spec


def folder_of(tmp_path: Path, **modules: str) -> PluginFolder:
    path = tmp_path / "plugins"
    path.mkdir()
    for name, source in modules.items():
        (path / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    return PluginFolder.read(path)


async def walked(spec: FlowSpec, plugins: Plugins, answers: Answers, **values: object) -> list[Context]:
    walk = Walk(
        build_flow(spec, plugins=plugins),
        inputs_context(spec, values),
        ScriptedCompleter(answers),
        run_id="run",
        emit=lambda _: None,
    )
    return await walk.run()


def error_of(context: Context) -> PluginError:
    assert context.error is not None
    assert isinstance(context.error.exception, PluginError), context.error.exception
    return context.error.exception


async def test_the_example_folder_runs_in_its_own_process() -> None:
    folder = PluginFolder.beside(EXAMPLE / "slogan.flow.json")
    assert folder is not None
    assert folder.faults == ()
    workers = folder_workers(folder)
    try:
        spec = load_flow(EXAMPLE / "slogan.flow.json").spec
        drafts = {"dry": ["two\nlines", "Bread, baked."], "warm": ["Warm bread from warm hands."], "bold": ["Bake!"]}
        (result,) = await walked(
            spec,
            Plugins(folder, workers),
            lambda request: drafts[request.turns[0][1].split()[2]][len(request.turns) // 2],
        )
    finally:
        await workers.aclose()
    assert result.error is None
    assert result["draft"] == ["Bake!"]
    assert result["words"] == [5]
    assert "3↣1" in result.trace.text()
    assert "words" not in sys.modules


async def test_the_example_package_runs_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((EXAMPLE / "package" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {group.removeprefix("flow_workbench."): points for group, points in project["entry-points"].items()}
    source = (EXAMPLE / "package" / "shout_plugins.py").read_text(encoding="utf-8")
    install(monkeypatch, tmp_path / "site", groups, shout_plugins=source)
    spec = flow(
        {"name": "A", "before": [{"call": "shout"}], "handler": {"type": "bullet_points", "key": "points"}},
    )
    (result,) = await walked(spec, Plugins(), ["no points", "- x\n- y"], text=["a"])
    assert result.error is None
    assert result["points"] == ["x", "y"]
    assert result["text"] == ["A"]
    merging = flow({"name": "A", "merge": {"type": "longest"}})
    (result,) = await walked(merging, Plugins(), lambda request: request.prompt * 2, text=["a", "bcd", "ef"])
    assert result["response"] == ["bcdbcd"]


def test_listing_and_checking_import_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "ran"
    source = f"open({str(mark)!r}, 'w')\ndef f(values): pass\nPLUGINS = {{'functions': {{'mine': f}}}}\n"
    install(monkeypatch, tmp_path / "site", {"functions": {"theirs": "loud:f"}}, loud=source)
    folder = folder_of(tmp_path, loud=source)
    plugins = Plugins(folder)
    assert plugins.names("functions") == ["mine", "theirs"]
    spec = flow({"name": "A", "before": [{"call": "mine"}, {"call": "theirs"}]})
    assert check_flow(spec, plugins=plugins) == []
    build_flow(spec, plugins=plugins)
    assert not mark.exists()
    assert "loud" not in sys.modules


def test_an_unknown_name_is_a_problem_at_its_place(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, m="def f(v): pass\nPLUGINS = {'functions': {'count_words': f}}")
    spec = flow(
        {
            "name": "A",
            "before": [{"call": "count_word"}],
            "handler": {"type": "jsn"},
            "merge": {"type": "nothing_like_it"},
        }
    )
    found = {problem.path: problem.message for problem in check_flow(spec, plugins=Plugins(folder))}
    assert 'did you mean "count_words"?' in found["$.agents[0].before[0].call"]
    assert 'did you mean "json"?' in found["$.agents[0].handler.type"]
    assert '"nothing_like_it"' in found["$.agents[0].merge.type"]
    with pytest.raises(FlowInvalid):
        build_flow(spec, plugins=Plugins(folder))


def test_what_a_folder_offers_is_read_from_its_source(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        a='''
        def weather(city: str, days: int = 1, tags: list[str] = []) -> str:
            """Tell the weather.

            More about it.
            """
        def plain(values): ...
        PLUGINS: dict = {"tools": {"weather": weather}, "functions": {"plain": plain, "gone": missing}, "clients": {}}
        ''',
        b="def plain(v): ...\nPLUGINS = {'functions': {'plain': plain}}",
        c="def broken(:",
        helper="X = 1",
    )
    assert set(folder.plugins) == {("tools", "weather"), ("functions", "plain")}
    weather = folder.plugins["tools", "weather"]
    assert (weather.file, weather.help) == ("a.py", "Tell the weather.")
    assert weather.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city"],
    }
    faults = "\n".join(folder.faults)
    for part in ('"gone" is not the name', 'no "clients"', 'b.py: "plain" is also in a.py', "c.py:1:"):
        assert part in faults


def test_the_digest_knows_every_byte_and_name(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, a="x = 1")
    (folder.path / "__pycache__").mkdir()
    (folder.path / "__pycache__" / "a.pyc").write_bytes(b"1")
    (folder.path / "link.py").symlink_to("/etc/hostname")
    assert PluginFolder.read(folder.path).digest == folder.digest
    (folder.path / "data.txt").write_text("1")
    more = PluginFolder.read(folder.path).digest
    (folder.path / "data.txt").write_text("2")
    assert len({folder.digest, more, PluginFolder.read(folder.path).digest}) == 3
    for number in range(MAX_FILES):
        (folder.path / f"{number}").touch()
    with pytest.raises(PluginError, match="too large"):
        PluginFolder.read(folder.path)


FAULTY = """
import time
def raises(values): return {"x": values["no"]}
def hangs(values): time.sleep(60)
def returns(values): return [1]
def no_data(values): return {"x": {1, 2}}
def leaves(values): raise SystemExit(3)
PLUGINS = {"functions": {"raises": raises, "hangs": hangs, "returns": returns, "no_data": no_data, "leaves": leaves}}
"""


@pytest.mark.parametrize("place", ["folder", "package"])
async def test_what_fails_is_named_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(plugins_module, "CALL_SECONDS", 1.0)
    names = ("raises", "hangs", "returns", "leaves", "no_data")
    spec = flow(
        {"name": "A", "template": "[[text]]", "routes": [{"when": f"text == '{n}'", "to": n} for n in names]},
        *({"name": name, "before": [{"call": name}]} for name in names),
    )
    workers = None
    if place == "folder":
        folder = folder_of(tmp_path, faulty=FAULTY)
        workers = folder_workers(folder)
        plugins = Plugins(folder, workers)
    else:
        install(
            monkeypatch, tmp_path / "site", {"functions": {name: f"faulty:{name}" for name in names}}, faulty=FAULTY
        )
        plugins = Plugins()
    began = time.monotonic()
    results = await walked(spec, plugins, lambda _: "ok", text=["good", *names])
    if workers is not None:
        await workers.aclose()
    assert time.monotonic() - began < 30
    good = [context["text"] for context in results if context.error is None]
    assert good == [["good"]] if place == "folder" else [["good"], ["no_data"]]
    told = {context.text("text"): error_of(context) for context in results if context.error is not None}
    expected = {"raises": "KeyError: 'no'", "hangs": "took longer than 1 seconds", "returns": "a value of type list"}
    expected |= {"leaves": "SystemExit: 3"} | ({"no_data": "set is not JSON"} if place == "folder" else {})
    for name, part in expected.items():
        assert part in told[name].message
        assert f'"{name}"' in told[name].message
        assert told[name].facts["file"] == ("faulty.py" if place == "folder" else f"faulty:{name}")
    if place == "folder":
        assert "(faulty.py:3)" in told["raises"].message


@pytest.mark.parametrize("place", ["folder", "package"])
async def test_a_module_that_fails_at_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    source = "def f(v): pass\nPLUGINS = {'functions': {'f': f}}\nraise RuntimeError('not here')\n"
    spec = flow({"name": "A", "before": [{"call": "f"}]})
    workers = None
    if place == "folder":
        folder = folder_of(tmp_path, broken=source)
        workers = folder_workers(folder)
        plugins = Plugins(folder, workers)
    else:
        install(monkeypatch, tmp_path / "site", {"functions": {"f": "broken:f"}}, broken=source)
        plugins = Plugins()
    (result,) = await walked(spec, plugins, lambda _: "ok", text=["a"])
    if workers is not None:
        await workers.aclose()
    assert "RuntimeError: not here" in error_of(result).message
    assert "broken" in error_of(result).message


async def test_a_folder_without_trust_does_not_run(tmp_path: Path) -> None:
    plugins = Plugins(folder_of(tmp_path, m="def f(v): pass\nPLUGINS = {'functions': {'f': f}}"))
    (result,) = await walked(flow({"name": "A", "before": [{"call": "f"}]}), plugins, lambda _: "ok", text=["a"])
    assert "not trusted" in error_of(result).message


async def test_merges_keep_or_replace_contexts() -> None:
    plugins = Plugins()
    returned: list[object] = []
    plugins.register("merges", "mine", lambda contexts: returned[0])
    spec = flow({"name": "A", "merge": {"type": "mine"}})

    async def merged(value: object) -> list[Context]:
        returned[:] = [value]
        return await walked(spec, plugins, lambda request: request.prompt, text=["a", "b", "c"])

    results = await merged([2, {"sum": 3, "text": ["x", "y"]}])
    assert [context.values_copy() for context in results] == [
        {"text": ["c"], "response": ["c"]},
        {"sum": [3], "text": ["x", "y"]},
    ]
    assert [context.trace.text().split(", ")[-1] for context in results] == ["3↣2"] * 2
    for bad in ([], [3], [-1], ["x"], [0, 1, 2, 0], None):
        results = await merged(bad)
        assert len(results) == 3
        assert all("returned" in error_of(context).message for context in results)


async def test_a_registered_name_goes_before_others(tmp_path: Path) -> None:
    plugins = Plugins(folder_of(tmp_path, m="def f(v): pass\nPLUGINS = {'functions': {'f': f}}"))
    plugins.register("functions", "f", lambda values: {"text": None, "n": len(values["text"])})
    (result,) = await walked(
        flow({"name": "A", "template": "x", "after": [{"call": "f"}]}), plugins, ["ok"], text=["a"]
    )
    assert result.values_copy() == {"response": ["ok"], "n": [1]}
    with pytest.raises(ValueError, match="expected one of functions"):
        plugins.register("function", "f", len)
