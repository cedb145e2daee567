"""The library of saved agents on disk."""

import os
from pathlib import Path

import pytest

from engine import StorageError
from engine.flow.flow_file import load_flow, save_flow
from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec, RouteSpec
from tests.helpers.sample_flows import chain
from workbench.agent_library import AgentLibrary

WRITER = AgentSpec(
    name="Writer",
    type=AgentType.COMPLETION,
    notes="Short texts only.",
    template="Write about {{topic}}.",
    routes=(RouteSpec(when="long", to="Cutter"), RouteSpec(to="Writer")),
)


def test_an_agent_is_kept_with_its_notes_and_without_its_links(tmp_path: Path) -> None:
    library = AgentLibrary(tmp_path / "agents")
    assert library.read() == ()
    path = library.save(WRITER)
    saved = library.named("Writer")
    assert saved is not None
    assert (saved.path, saved.about) == (path, "Short texts only.")
    agent = load_flow(path).spec.agents[0]
    assert (agent.notes, agent.template) == (WRITER.notes, WRITER.template)
    assert agent.routes == (RouteSpec(when="long"), RouteSpec())


def test_a_grader_forgets_where_its_feedback_goes(tmp_path: Path) -> None:
    library = AgentLibrary(tmp_path)
    asked: dict[str, object] = {"question": "{{q}}", "answer": "{{response}}", "feedback_to": "Writer"}
    library.save(AgentSpec(name="Check", grader="AnswerGraderBinary", with_=asked))
    saved = library.named("Check")
    assert saved is not None
    assert saved.agent is not None
    assert saved.agent.with_ == {"question": "{{q}}", "answer": "{{response}}"}


def test_saving_under_a_name_that_is_there_replaces_it(tmp_path: Path) -> None:
    library = AgentLibrary(tmp_path)
    first = library.save(WRITER)
    assert library.save(AgentSpec(name="Writer", template="Else.")) == first
    assert [one.about for one in library.agents] == ["Else."]


@pytest.mark.parametrize("name", ["a/b", "../../etc", "CON:", "  ", ".hidden", "x" * 400, "Ärger 好"])
def test_any_name_becomes_a_file_in_the_folder(tmp_path: Path, name: str) -> None:
    library = AgentLibrary(tmp_path / "agents")
    path = library.save(AgentSpec(name=name))
    assert path.parent == tmp_path / "agents"
    assert [one.name for one in library.agents] == [name]


def test_names_that_share_a_file_name_are_kept_apart(tmp_path: Path) -> None:
    library = AgentLibrary(tmp_path)
    assert library.save(AgentSpec(name="a/b")) != library.save(AgentSpec(name="a:b"))
    assert [one.name for one in library.agents] == ["a/b", "a:b"]


def test_rename_and_delete(tmp_path: Path) -> None:
    library = AgentLibrary(tmp_path)
    library.save(WRITER)
    library.rename(library.agents[0], "Author")
    saved = library.agents[0]
    assert (saved.name, saved.path.name, len(library.agents)) == ("Author", "Author.agent.json", 1)
    assert load_flow(saved.path).spec.start == "Author"
    library.delete(saved)
    assert library.agents == ()
    library.delete(saved)  # somebody else was faster


def test_a_file_that_cannot_be_used_is_listed_with_its_fault(tmp_path: Path) -> None:
    (tmp_path / "broken.agent.json").write_text("{", encoding="utf-8")
    save_flow(chain("A", "B"), tmp_path / "two.agent.json")
    save_flow(FlowSpec(name="Empty"), tmp_path / "none.agent.json")
    library = AgentLibrary(tmp_path)
    faults = {one.name: one.fault for one in library.read()}
    assert "broken.agent.json" in faults["broken"]
    assert faults["two"] == "two.agent.json: a saved agent is a flow of one agent, found 2."
    assert faults["none"] == "none.agent.json: a saved agent is a flow of one agent, found 0."
    assert library.named("two") is None


def test_a_file_changed_by_hand_is_read_again(tmp_path: Path) -> None:
    library = AgentLibrary(tmp_path)
    path = library.save(WRITER)
    path.write_text(path.read_text("utf-8").replace("Short texts only.", "Long texts, too."), encoding="utf-8")
    os.utime(path, (1, 1))
    assert library.read()[0].about == "Long texts, too."


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "agents").write_text("a file is in the way", encoding="utf-8")
    with pytest.raises(StorageError, match="cannot be made"):
        AgentLibrary(tmp_path / "agents").save(WRITER)
