"""Adding, linking, removing, copying, framing and laying out, as pure functions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.flow.flow_check import check_flow
from engine.flow.flow_file import flow_text, read_flow
from engine.flow.flow_spec import AgentSpec, EditorSpec, FlowSpec, RouteSpec
from tests.helpers.sample_flows import agent, chain, grid, sample
from workbench.designer.agent_edits import (
    copied_part,
    free_name,
    paste_part,
    remove_agents,
    set_start,
    set_state,
    way_out,
)
from workbench.designer.agent_kinds import additions
from workbench.designer.auto_layout import COLUMN_STEP, layered
from workbench.designer.card_content import CARD_WIDTH, card_content
from workbench.designer.edits import change_agent, change_flow
from workbench.designer.frame_edits import (
    add_frame,
    agents_inside,
    change_frame,
    frame_around,
    frames_of,
    remove_frame,
)
from workbench.designer.link_edits import (
    add_route,
    connect,
    disconnect,
    insert_between,
    links_of,
    may_add_route,
    may_connect,
    move_start,
    port_target,
)

GRADED = sample("draft-grade-improve")
SORTING = sample("sort-messages")


def routes(spec: FlowSpec, name: str) -> list[tuple[str | None, str | None]]:
    found = spec.agent(name)
    assert found is not None
    return [(route.when, route.to) for route in found.routes]


# -- links -------------------------------------------------------------------------------------------------------------


def test_ports_are_the_routes_and_then_the_feedback() -> None:
    check = GRADED.agent("Check")
    assert check is not None
    assert [port_target(check, port) for port in range(len(check.routes) + 1)][-1] == "Writer"
    assert ("Check", len(check.routes), "Writer") in list(links_of(GRADED))
    for name in ("Writer", "Check"):
        found = GRADED.agent(name)
        assert found is not None
        shown = card_content(GRADED, found).ports
        assert [port.target for port in shown] == [port_target(found, index) for index in range(len(shown))]


def test_connecting_and_disconnecting() -> None:
    spec = chain("A", "B", "C")
    assert routes(connect(spec, "A", 0, "C"), "A") == [(None, "C")]
    assert routes(disconnect(spec, "A", 0), "A") == []
    assert routes(connect(disconnect(spec, "A", 0), "A", 0, "B"), "A") == [(None, "B")]
    assert connect(spec, "A", 0, "B") is spec
    # A condition stays, and ends the flow.
    assert routes(disconnect(SORTING, "Sort", 0), "Sort")[0] == ("topic == 'delivery'", None)
    check = GRADED.agent("Check")
    assert check is not None
    free = disconnect(GRADED, "Check", len(check.routes)).agent("Check")
    assert free is not None
    assert "feedback_to" not in free.with_


def test_a_route_more_is_the_last_one() -> None:
    spec = change_agent(chain("A", "B", "C"), "A", routes=(RouteSpec(when="x", to="B"),))
    first = spec.agent("A")
    assert first is not None
    assert may_add_route(first)
    added = add_route(spec, "A", "C")
    assert routes(added, "A") == [("x", "B"), (None, "C")]
    full = added.agent("A")
    assert full is not None
    assert not may_add_route(full)


def test_the_beginning_of_a_link_moves() -> None:
    moved = move_start(chain("A", "B", "C", "D"), "A", 0, "D", 0)
    assert routes(moved, "A") == []
    assert routes(moved, "D") == [(None, "B")]


def test_an_agent_is_put_on_a_link() -> None:
    spec = chain("A", "B")
    spec = change_flow(spec, agents=(*spec.agents, AgentSpec(name="New")))
    between = insert_between(spec, "A", 0, "New", "New")
    assert list(links_of(between)) == [("A", 0, "New"), ("New", 0, "B")]


def test_what_may_be_connected() -> None:
    spec = chain("A", "B", "C")
    assert may_connect(spec, "C", 0, "A")
    assert not may_connect(spec, "A", 0, "A"), "for ever"
    assert may_connect(change_agent(spec, "A", routes=(RouteSpec(when="x", to="B"),)), "A", 0, "A")
    check = GRADED.agent("Check")
    assert check is not None
    feedback = len(check.routes)
    assert may_connect(GRADED, "Check", feedback, "Writer")
    assert not may_connect(GRADED, "Check", feedback, "Check")
    alone = change_flow(GRADED, agents=(*GRADED.agents, agent("Alone", None)))
    assert not may_connect(alone, "Check", feedback, "Alone"), "no way leads back"


# -- removing ----------------------------------------------------------------------------------------------------------


def test_removing_leaves_no_reference() -> None:
    removed = remove_agents(GRADED, ["Writer"])
    assert "Writer" not in flow_text(removed)
    assert removed.start == "Check"
    assert remove_agents(GRADED, ["Writer", "Check"]).agents == ()


def test_healing_leads_on_past_all_that_go() -> None:
    healed = remove_agents(chain("A", "B", "C", "D"), ["B", "C"], heal=True)
    assert list(links_of(healed)) == [("A", 0, "D")]
    assert remove_agents(chain("A", "B", "C"), ["A"], heal=True).start == "B"
    assert routes(remove_agents(chain("A", "B"), ["B"], heal=True), "A") == []
    loop = connect(chain("A", "B", "C"), "C", 0, "B")
    assert routes(remove_agents(loop, ["B", "C"], heal=True), "A") == []
    branches = remove_agents(SORTING, ["DeliveryReply"], heal=True)
    assert routes(branches, "Sort")[0] == ("topic == 'delivery'", "Table")


@given(st.sets(st.integers(0, 24)), st.booleans())
def test_removing_any_agents_leaves_a_flow_without_unknown_targets(gone: set[int], heal: bool) -> None:
    spec = remove_agents(grid(25, 5), [f"Agent{index}" for index in gone], heal=heal)
    names = {one.name for one in spec.agents}
    assert {target for _, _, target in links_of(spec)} <= names
    assert set(spec.editor.positions) == names
    assert (spec.start in names) or not names


# -- copying -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "taken", "name"),
    [
        ("A", [], "A"),
        ("A", ["A"], "A 2"),
        ("A 2", ["A", "A 2"], "A 3"),
        ("2", ["2"], "2 2"),
        ("A", ["A", "A 2", "A 3"], "A 4"),
    ],
)
def test_free_names(wanted: str, taken: list[str], name: str) -> None:
    assert free_name(wanted, taken) == name


def test_copies_are_renamed_and_their_links_follow() -> None:
    part = copied_part(GRADED, ["Writer", "Check"])
    pasted, names = paste_part(GRADED, part, (1000.0, 500.0))
    assert names == ("Writer 2", "Check 2")
    copy = pasted.agent("Check 2")
    assert copy is not None
    assert copy.with_["feedback_to"] == "Writer 2"
    assert routes(pasted, "Writer 2") == [(None, "Check 2")]
    assert pasted.editor.positions["Writer 2"][0] == 1000
    assert pasted.start == "Writer"
    assert pasted.agents[:2] == GRADED.agents


def test_links_that_lead_out_stay_behind_and_those_that_came_in_come_along_if_wanted() -> None:
    spec = chain("A", "B", "C")
    part = copied_part(spec, ["B"])
    without, _ = paste_part(spec, part, (0.0, 0.0))
    assert list(links_of(without)) == list(links_of(spec))
    along, names = paste_part(spec, part, (0.0, 0.0), incoming=True)
    assert names == ("B 2",)
    assert routes(along, "A") == [(None, "B"), (None, "B 2")]
    branch, _ = paste_part(SORTING, copied_part(SORTING, ["PaymentReply"]), (0.0, 0.0), incoming=True)
    assert routes(branch, "Sort")[1:3] == [
        ("topic == 'payment'", "PaymentReply"),
        ("topic == 'payment'", "PaymentReply 2"),
    ]


def test_the_clipboard_is_a_flow_that_reads_and_runs() -> None:
    part = copied_part(GRADED, ["Writer", "Check"])
    again = read_flow(flow_text(part)).spec
    assert paste_part(GRADED, again, (5.0, 5.0)) == paste_part(GRADED, part, (5.0, 5.0))
    into_empty, names = paste_part(FlowSpec(name="New"), again, (0.0, 0.0))
    assert (into_empty.start, names) == ("Writer", ("Writer", "Check"))
    assert into_empty.agents == GRADED.agents


@given(st.sets(st.integers(0, 8), min_size=1), st.booleans(), st.integers(1, 3))
def test_pasting_never_breaks_names(chosen: set[int], incoming: bool, times: int) -> None:
    spec = grid(9, 3)
    before = dict.fromkeys(one.name for one in spec.agents)
    part = copied_part(spec, [f"Agent{index}" for index in chosen])
    for _ in range(times):
        spec, names = paste_part(spec, part, (10.0, 10.0), incoming=incoming)
        assert len(names) == len(chosen)
    every = [one.name for one in spec.agents]
    assert len(set(every)) == len(every) == len(before) + times * len(chosen)
    assert {target for _, _, target in links_of(spec)} <= set(every)


def test_state_and_start() -> None:
    spec = chain("A", "B")
    muted = set_state(spec, ["B"], "mute")
    assert [one.state for one in muted.agents] == [None, "mute"]
    assert muted.agents[0] is spec.agents[0]
    assert set_state(muted, ["B"], None) == spec
    assert set_start(spec, "B").start == "B"


# -- the palette -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("addition", [one for one in additions() if one.part is not None], ids=lambda one: one.text)
def test_whatever_the_palette_adds_is_a_flow_without_errors(addition: object) -> None:
    part = addition.part  # type: ignore[attr-defined]
    spec, names = paste_part(FlowSpec(name="New"), part, (0.0, 0.0))
    errors = [one.message for one in check_flow(spec) if one.severity == "error"]
    assert errors == []
    assert way_out(spec, names) in names


# -- layout ------------------------------------------------------------------------------------------------------------


def test_a_chain_is_laid_out_in_a_straight_line() -> None:
    spec = chain("A", "B", "C")
    spec = change_flow(spec, editor=EditorSpec(positions={"A": (50, 70), "B": (0, 300), "C": (900, 7)}))
    assert layered(spec) == {"A": (0, 7), "B": (COLUMN_STEP, 7), "C": (2 * COLUMN_STEP, 7)}


def test_only_some_agents_are_laid_out_and_loops_do_not_matter() -> None:
    loop = connect(chain("A", "B", "C", "D"), "D", 0, "B")
    places = layered(loop, ["B", "C", "D"])
    assert set(places) == {"B", "C", "D"}
    assert [places[name][0] for name in "BCD"] == [280, 280 + COLUMN_STEP, 280 + 2 * COLUMN_STEP]
    assert layered(FlowSpec(name="Empty")) == {}


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=80))
def test_no_card_covers_another(count: int, links: list[tuple[int, int]]) -> None:
    spec = FlowSpec(
        name="Any",
        agents=tuple(
            agent(f"A{index}", *(f"A{end % count}" for start, end in links if start % count == index))
            for index in range(count)
        ),
    )
    places = layered(spec)
    assert set(places) == {one.name for one in spec.agents}
    cards = [(*places[one.name], card_content(spec, one).body_height) for one in spec.agents]
    for index, (x, y, height) in enumerate(cards):
        for x2, y2, height2 in cards[:index]:
            apart = x + CARD_WIDTH <= x2 or x2 + CARD_WIDTH <= x or y + height <= y2 or y2 + height2 <= y
            assert apart


# -- frames ------------------------------------------------------------------------------------------------------------


def test_frames() -> None:
    spec = frame_around(chain("A", "B", "C"), ["A", "B"], "Part one")
    (frame,) = frames_of(spec)
    assert (frame.title, frame.color) == ("Part one", "accent")
    assert agents_inside(spec, frame) == ("A", "B")
    assert read_flow(flow_text(spec)).spec == spec
    changed = change_frame(spec, 0, title="Two", color="ok", rect=(0, 0, 10, 10))
    assert frames_of(changed)[0].rect == (0, 0, 120, 60)
    assert remove_frame(changed, 0) == replace(spec, editor=replace(spec.editor, frames=()))
    assert frame_around(spec, [], "None") is spec


def test_frames_of_others_are_kept_and_those_without_a_place_are_not_shown() -> None:
    foreign = ({"title": "f", "mark": 1}, {"rect": [0, 0, 50, 50], "color": "pink", "mark": 2}, {"rect": "all"})
    spec = change_flow(chain("A"), editor=EditorSpec(frames=foreign))
    (frame,) = frames_of(spec)
    assert (frame.index, frame.color) == (1, "accent")
    assert change_frame(spec, 1, title="x").editor.frames[1]["mark"] == 2
    assert len(add_frame(spec, "more", (0.0, 0.0, 200.0, 100.0)).editor.frames) == 4
