"""Flow files: what is read is what is written, and every fault has its place."""

import contextlib
import json
import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import bundled
from engine.errors import FlowFileError, FlowInvalid, StorageError
from engine.flow.flow_build import build_flow
from engine.flow.flow_check import check_flow, check_loaded
from engine.flow.flow_file import LoadedFlow, flow_text, load_flow, read_flow, save_flow
from engine.flow.flow_spec import (
    AgentSpec,
    AgentType,
    EditorSpec,
    FlowSpec,
    HandlerSpec,
    InputSpec,
    LimitsSpec,
    MergeSpec,
    ModelSpec,
    OperationSpec,
    RouteSpec,
    ShotSpec,
)
from engine.profile_store import ProfileStore

SAMPLES = bundled.names("resources", "flows", suffix=".flow.json")
HEAD = '{"format": "workbench.flow", "version": 1, "name": "A"'


def sample(name: str) -> str:
    return bundled.read_text("resources", "flows", f"{name}.flow.json")


def fault(text: str | bytes) -> str:
    with pytest.raises(FlowFileError) as caught:
        read_flow(text, name="x.flow.json")
    return str(caught.value)


def test_the_five_samples_are_there() -> None:
    assert SAMPLES == ["draft-grade-improve", "release-announcement", "sort-messages", "thinking", "tools"]


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_canonical(name: str) -> None:
    loaded = read_flow(sample(name), name=name)
    assert loaded.problems == ()
    assert not loaded.read_only
    assert flow_text(loaded.spec) == sample(name)


def test_reads_every_field_of_a_sample() -> None:
    spec = read_flow(sample("release-announcement")).spec
    assert spec.name == "Release announcement"
    assert spec.limits == LimitsSpec(max_steps=50, max_seconds=120, max_cost=0.5)
    assert [agent.name for agent in spec.agents] == [
        "CodeSummarizer",
        "FeatureIdentifier",
        "FeatureAnalyzer",
        "AnswerGenerator",
    ]
    analyzer = spec.agent("FeatureAnalyzer")
    assert analyzer is not None
    assert analyzer.type is AgentType.COMPLETION
    assert analyzer.model is not None
    assert analyzer.model.overrides["extParams"] == {"cache_prompt": False}
    assert analyzer.few_shot[0].assistant == "This saves the owner from searching for songs."
    assert analyzer.merge is not None
    assert analyzer.merge.keys == ("feature", "analysis")
    assert analyzer.stop == ("\n",)
    assert spec.editor.positions["FeatureAnalyzer"] == (560.0, 0.0)


def test_saving_is_atomic_and_loading_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.flow.json"
    spec = read_flow(sample("sort-messages")).spec
    digest = save_flow(spec, path)
    loaded = load_flow(path)
    assert loaded == LoadedFlow(spec=spec, digest=digest)
    assert [item.name for item in tmp_path.iterdir() if item.is_file()] == ["a.flow.json"]
    with pytest.raises(StorageError, match="Cannot save"):
        save_flow(spec, tmp_path / "missing" / "a.flow.json")


def test_a_moved_agent_changes_one_line() -> None:
    spec = read_flow(sample("sort-messages")).spec
    moved = EditorSpec(positions={**spec.editor.positions, "Table": (612.5, -3.0)})
    before = flow_text(spec).splitlines()
    after = flow_text(
        FlowSpec(**{name: getattr(spec, name) for name in FlowSpec.__struct_fields__} | {"editor": moved})
    )
    changed = [line for line in after.splitlines() if line not in before]
    assert changed == ['      "Table": [612.5, -3]']
    assert after.endswith('"Table": [612.5, -3]\n    }\n  }\n}\n')


def test_unknown_fields_are_kept_and_reported() -> None:
    text = HEAD + (
        ', "nots": "?", "start": "B", "agents": [{"name": "B", "type": "COMPLETION", "tempalte": "x",'
        ' "extra": {"y": [1.50]},'
        ' "model": {"category": "M", "color": null}}], "editor": {"zoom": 1.5, "positions": {"B": [1, 2]}}}'
    )
    loaded = read_flow(text, name="x.flow.json")
    assert [(problem.path, problem.severity) for problem in loaded.problems] == [
        ("$.agents[0].model.color", "warning"),
        ("$.agents[0].tempalte", "warning"),
        ("$.agents[0].extra", "warning"),
        ("$.editor.zoom", "warning"),
        ("$.nots", "warning"),
    ]
    assert 'did you mean "template"?' in loaded.problems[1].message
    again = json.loads(flow_text(loaded.spec))
    assert again == json.loads(text)
    assert list(again)[-1] == "editor"
    assert list(again["editor"]) == ["zoom", "positions"]


def test_a_newer_version_opens_read_only() -> None:
    loaded = read_flow(HEAD.replace("1", "7", 1) + ', "agents": []}', name="x.flow.json")
    assert loaded.read_only
    assert "version 7" in loaded.problems[0].message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "x.flow.json:1:1: expecting value, found the end of the file."),
        ('{\n  "a": tru\n}', "x.flow.json:2:8: expecting value, found 'tru'."),
        ('{"a": 1,}', "x.flow.json:1:9: "),
        ('{"a": "x', "x.flow.json:1:7: unterminated string"),
        ('{"a": 1}\n{}', "x.flow.json:2:1: extra data, found '{}'."),
        ('{"a": 1,\n "b": 2, "a": 3}', 'x.flow.json:2:10: found the name "a" twice in one object.'),
        ('{"a": [NaN]}', "x.flow.json:1:8: found the number NaN, which is not allowed or too large."),
        ('{"a": "NaN", "b": -Infinity}', "x.flow.json:1:19: found the number -Infinity"),
        ('{"a": 1e999}', "x.flow.json:1:7: found the number 1e999"),
        ('{"a": ' + "9" * 5000 + "}", "x.flow.json:1:7: found the number 99999999999999999999,"),
        ('{"a": "\\ud800"}', "half a character"),
        ("[" * 3000 + "]" * 3000, "x.flow.json:1:201: nested deeper than 200 levels."),
        ("[1, 2]", 'x.flow.json, $.format: found a list of 2, expected "workbench.flow"'),
        ("{}", 'x.flow.json, $.format: found nothing, expected "workbench.flow"'),
        ('{"format": "other"}', '$.format: found "other", expected "workbench.flow"'),
        ('{"format": "workbench.flow", "version": true}', "$.version: found true, expected a version number"),
        ('{"format": "workbench.flow", "version": 1}', "x.flow.json, $.name: found nothing, expected a text."),
        (HEAD + ', "start": 3}', "x.flow.json, $.start: found 3, expected a text."),
        (HEAD + ', "outputs": "a"}', '$.outputs: found "a", expected a list.'),
        (HEAD + ', "limits": {"max_steps": 1.5}}', "$.limits.max_steps: found 1.5, expected a whole number."),
        (HEAD + ', "agents": [{}]}', "$.agents[0].name: found nothing, expected a text."),
        (HEAD + ', "agents": [3]}', "$.agents[0]: found 3, expected an object."),
        (
            HEAD + ', "agents": [{"name": "a", "type": "CHAT"}]}',
            '$.agents[0].type: found "CHAT", expected one of COMPLETION, START_CONVERSATION,',
        ),
        (HEAD + ', "agents": [{"name": "a", "gather": 1}]}', "$.agents[0].gather: found 1, expected true or false."),
        (HEAD + ', "agents": [{"name": "a", "state": "off"}]}', "expected one of bypass, mute."),
        (HEAD + ', "inputs": [{"key": "a", "type": "date"}]}', '$.inputs[0].type: found "date", expected one of'),
        (HEAD + ', "editor": {"positions": {"a b": [1]}}}', '$.editor.positions["a b"]: found a list of 1, expected'),
        (
            HEAD + ', "editor": {"positions": {"a": [1, "2"]}}}',
            '$.editor.positions.a[1]: found "2", expected a number.',
        ),
        (HEAD + ', "limits": {"max_cost": 1' + "0" * 400 + "}}", "$.limits.max_cost"),
    ],
)
def test_a_fault_has_its_place(text: str, expected: str) -> None:
    assert expected in fault(text)


SHAPELESS = """{"format": "workbench.flow", "version": 1, "outputs": "a", "limits": {"max_steps": "x", "max_cost": -1},
"agents": [
  {"name": "A", "type": "CHAT", "template": "{{x}}", "state": 3, "model": {"category": 7}, "routes": [{"to": "Gone"}]},
  {"type": "COMPLETION", "merge": {}, "with": [], "timeout": 1%s, "few_shot": [{"user": 1}]},
  5],
"editor": {"positions": {"A": [1]}}}""" % ("0" * 400)


def test_all_faults_of_the_shape_are_found_when_asked_for() -> None:
    loaded = read_flow(SHAPELESS, name="x.flow.json", tolerant=True)
    assert {(problem.severity, problem.file) for problem in loaded.problems} == {("error", "x.flow.json")}
    assert [problem.path for problem in loaded.problems] == [
        "$.name",
        "$.outputs",
        "$.limits.max_steps",
        "$.agents[0].type",
        "$.agents[0].state",
        "$.agents[0].model.category",
        "$.agents[1].name",
        "$.agents[1].with",
        "$.agents[1].few_shot[0].user",
        "$.agents[1].few_shot[0].assistant",
        "$.agents[1].merge.type",
        "$.agents[1].timeout",
        "$.agents[2]",
        "$.editor.positions.A",
    ]
    assert loaded.problems[0].message == "Found nothing, expected a text."
    assert loaded.problems[4].message == "Found 3, expected one of bypass, mute."
    with pytest.raises(FlowFileError) as caught:
        read_flow(SHAPELESS, name="x.flow.json")
    assert str(caught.value) == "x.flow.json, $.name: found nothing, expected a text. (and 13 more)"
    assert len(caught.value.problems) == 14
    fifth = str(caught.value.problems[4])
    assert fifth == "x.flow.json:3:63:$.agents[0].state: error: Found 3, expected one of bypass, mute."


def test_a_faulty_shape_does_not_hide_the_other_problems_and_makes_none_of_its_own(tmp_path: Path) -> None:
    loaded = read_flow(SHAPELESS, name="x.flow.json", tolerant=True)
    found = check_loaded(loaded, file="x.flow.json", profiles=ProfileStore(tmp_path))
    first = found[: len(loaded.problems)]
    assert [(problem.path, problem.message) for problem in first] == [
        (problem.path, problem.message) for problem in loaded.problems
    ]
    assert [(problem.line, problem.column) for problem in first[:4]] == [(1, 1), (1, 55), (1, 84), (3, 25)]
    rest = {problem.path: problem.message for problem in found[len(loaded.problems) :]}
    assert "Gone" in rest["$.agents[0].routes[0].to"]
    assert '"x"' in rest["$.agents[0].template"]
    assert "at least 0" in rest["$.limits.max_cost"]
    assert not [path for path in rest if path.startswith(("$.agents[2]", "$.agents[0].model", "$.agents[1].name"))]
    assert "$.agents[0]" not in rest


def test_only_utf8_is_read() -> None:
    text = HEAD + "}"
    assert read_flow(b"\xef\xbb\xbf" + text.encode()).spec.name == "A"
    assert "UTF-16" in fault(text.encode("utf-16"))
    assert "UTF-16" in fault(text.encode("utf-16-le"))
    assert "x.flow.json:2:3: found the byte 0xff, expected UTF-8 text." in fault(b'{\n "\xff": 1}')


def test_refuses_before_reading(tmp_path: Path) -> None:
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(5_000_000_000)
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (("huge", "too large"), ("pipe", "a pipe"), (".", "a folder"), ("none", "No such file")):
        with pytest.raises(FlowFileError, match=reason) as caught:
            load_flow(tmp_path / name)
        assert str(tmp_path) in str(caught.value)


def test_a_million_agents_are_refused_and_five_thousand_open() -> None:
    agents = ", ".join(f'{{"name": "a{index}"}}' for index in range(1_000_000))
    assert "too large" in fault(f'{HEAD}, "agents": [{agents[:19_000_000]}')
    agents = ", ".join(f'{{"name": "a{index}", "type": "COMPLETION"}}' for index in range(5_000))
    loaded = read_flow(f'{HEAD}, "agents": [{agents}]}}')
    assert len(loaded.spec.agents) == 5_000
    assert read_flow(flow_text(loaded.spec)).spec == loaded.spec


def test_what_json_cannot_hold_is_not_written() -> None:
    for spec in (
        FlowSpec(name="a", limits=LimitsSpec(max_cost=float("nan"))),
        FlowSpec(name="a", extra={"x": object()}),
        FlowSpec(name="a", editor=EditorSpec(positions={"a": (float("inf"), 0)})),
    ):
        with pytest.raises(FlowFileError):
            flow_text(spec)


MANY = {
    "numbers": '"agents": [{}]'.format(",".join(["1"] * 5_000_000)),
    "faults": '"agents": [{}]'.format(",".join(["1"] * 290_000)),
    "empty agents": '"agents": [{}]'.format(",".join(["{}"] * 140_000)),
    "unknown fields": ",".join(f'"k{number}": 1' for number in range(140_000)),
    "positions": '"editor": {{"positions": {{{}}}}}'.format(",".join(f'"a{number}": 1' for number in range(140_000))),
}


@pytest.mark.parametrize("members", MANY.values(), ids=MANY)
@pytest.mark.parametrize("tolerant", [True, False])
def test_a_file_of_nothing_but_faults_is_refused_or_read_in_time(members: str, tolerant: bool) -> None:
    """A generous bound for busy machines; 2 s are promised."""
    started = time.thread_time()
    with contextlib.suppress(FlowFileError):
        assert len(read_flow(f"{HEAD}, {members}}}", tolerant=tolerant).problems) <= 2000
    assert time.thread_time() - started < 6


def test_half_characters_do_not_keep_a_flow_from_being_saved_and_nothing_is_cut_at_nul(tmp_path: Path) -> None:
    path = tmp_path / "odd.flow.json"
    joined = "\ud83d" + "\ude00"
    agent = AgentSpec(name="A", template=f"half \ud800, {joined}, nul \0 and on")
    save_flow(FlowSpec(name="\udc00", agents=(agent,)), path)
    loaded = load_flow(path).spec
    assert loaded.name == "\ufffd"
    assert loaded.agents[0].template == "half \ufffd, \U0001f600, nul \0 and on"


# --- properties ---

texts = st.text(st.characters(codec="utf-8"), max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)
# Names no version uses: a field that is known cannot be unknown.
extras = st.dictionaries(texts.map("x_{}".format) | st.just("extra"), json_values, max_size=2)
some = {"max_size": 3}


def optional(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | strategy


def many(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(strategy, max_size=2).map(tuple)


handlers = st.builds(
    HandlerSpec,
    type=texts,
    key=optional(texts),
    prefix=optional(texts),
    schema=optional(objects),
    headings=many(texts),
    then=optional(st.builds(HandlerSpec, type=texts, extra=extras)),
    extra=extras,
)
operations = st.builds(
    OperationSpec,
    set=optional(texts),
    to=optional(texts),
    skip=optional(st.sampled_from(["SKIP", "SETUP_CONVERSATION_ONLY"])),
    when=optional(texts),
    extra=extras,
)
agents = st.builds(
    AgentSpec,
    name=texts,
    type=optional(st.sampled_from(AgentType)),
    state=optional(st.sampled_from(["bypass", "mute"])),
    model=optional(
        st.builds(ModelSpec, category=optional(texts), overrides=objects, inline=optional(objects), extra=extras)
    ),
    with_=objects,
    system_prompt=texts,
    few_shot=many(st.builds(ShotSpec, user=texts, assistant=texts, tool_calls=many(objects), extra=extras)),
    before=many(operations),
    template=texts,
    stop=many(texts),
    handler=optional(handlers),
    merge=optional(st.builds(MergeSpec, type=texts, keys=many(texts), header=optional(texts), extra=extras)),
    gather=st.booleans(),
    retry_on_parsing_error=st.integers(),
    stream=st.booleans(),
    timeout=optional(numbers),
    outputs=st.dictionaries(texts, texts, max_size=2),
    routes=many(
        st.builds(RouteSpec, when=optional(texts), to=optional(texts), graded=optional(st.booleans()), extra=extras)
    ),
    extra=extras,
)
flows = st.builds(
    FlowSpec,
    name=texts,
    inputs=many(st.builds(InputSpec, key=texts, default=json_values, choices=many(texts), extra=extras)),
    limits=optional(st.builds(LimitsSpec, max_steps=optional(st.integers()), max_cost=optional(numbers), extra=extras)),
    start=texts,
    agents=many(agents),
    editor=st.builds(
        EditorSpec,
        frames=many(objects),
        positions=st.dictionaries(texts, st.tuples(numbers, numbers), max_size=3),
        extra=extras,
    ),
    extra=extras,
)


@settings(max_examples=50, deadline=None)
@given(flows)
def test_any_flow_survives_the_round_trip(spec: FlowSpec) -> None:
    text = flow_text(spec)
    again = read_flow(text)
    assert again.spec == spec
    assert flow_text(again.spec) == text


@settings(max_examples=50, deadline=None)
@given(flows)
def test_any_flow_can_be_checked_and_is_built_or_refused(spec: FlowSpec) -> None:
    errors = [problem for problem in check_flow(spec, profiles=["a"], categories=["M"]) if problem.severity == "error"]
    try:
        build_flow(spec)
    except FlowInvalid:
        assert errors
    else:
        assert all("profile" in problem.message or "category" in problem.message for problem in errors)


def check_mutations(count: int) -> None:
    """Mutated files raise only FlowFileError, and quickly."""
    chance = random.Random(1)
    originals = [sample(name).encode() for name in SAMPLES]
    pieces = [
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"null",
        b"1e400",
        b"NaN",
        b"\xff",
        b"\0",
        b"\\ud800",
        b"-",
    ]
    slowest = 0.0
    for _ in range(count):
        data = bytearray(chance.choice(originals))
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[place] = chance.randrange(256)
                case 1:
                    data[place : place + chance.randrange(40)] = b""
                case 2:
                    data[place:place] = chance.choice(pieces)
                case _:
                    start = chance.randrange(len(data))
                    data[place:place] = data[start : start + chance.randrange(200)]
        before = time.thread_time()
        with contextlib.suppress(FlowFileError):
            loaded = read_flow(bytes(data), tolerant=True)
            check_loaded(loaded)
            spec = read_flow(bytes(data)).spec
            flow_text(spec)
            assert all(problem.severity == "warning" for problem in loaded.problems)
        slowest = max(slowest, time.thread_time() - before)
    assert slowest < 2


def test_mutated_files_are_refused_or_read() -> None:
    check_mutations(3_000)


@pytest.mark.soak
def test_many_mutated_files_are_refused_or_read() -> None:
    check_mutations(20_000)
