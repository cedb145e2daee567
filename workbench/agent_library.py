"""Agents kept for use in any flow: flow files of one agent each, in the folder `agents` of the data folder."""

import re
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace
from PySide6.QtCore import QCoreApplication

from engine.errors import EngineError, StorageError
from engine.flow.flow_file import load_flow, save_flow
from engine.flow.flow_spec import AgentSpec, FlowSpec
from workbench.designer.agent_edits import unlinked
from workbench.designer.edits import rename_agent

translate = QCoreApplication.translate

SUFFIX = ".agent.json"
_UNSAFE = re.compile(r'[\x00-\x1f<>:"/\\|?*.\s]+')
_LONGEST = 80
"""Characters of a file's name, before its ending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAgent:
    """One file of the library."""

    name: str
    """That of the agent; of a faulty file its own."""
    path: Path
    part: FlowSpec | None
    """A flow of just this agent; None when the file is faulty."""
    fault: str = ""
    """Why it cannot be used."""

    @property
    def agent(self) -> AgentSpec | None:
        """The agent itself."""
        return self.part.agents[0] if self.part is not None else None

    @property
    def about(self) -> str:
        """One line about it: the first of its notes, else of its prompt; empty when it has neither."""
        agent = self.agent
        text = (agent.notes or agent.template or agent.system_prompt) if agent is not None else self.fault
        return next((line.strip() for line in text.splitlines() if line.strip()), "")[:200]


class AgentLibrary:
    """Reads and writes the folder. `read`, `save`, `rename` and `delete` use the disk: call them in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[Path, int, int], SavedAgent] = {}
        self.agents: tuple[SavedAgent, ...] = ()
        """As they were read last, by name."""

    def read(self) -> tuple[SavedAgent, ...]:
        """Read what changed in the folder; files that cannot be used are among the agents with their fault."""
        known = {}
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            try:
                status = path.stat()
            except OSError:  # it went meanwhile
                continue
            key = (path, status.st_mtime_ns, status.st_size)
            known[key] = self._known.get(key) or _load(path)
        self._known = known
        self.agents = tuple(sorted(known.values(), key=lambda one: (one.name.casefold(), str(one.path))))
        return self.agents

    def named(self, name: str) -> SavedAgent | None:
        """The agent of this name among those that were read last."""
        return next((one for one in self.agents if one.part is not None and one.name == name), None)

    def save(self, agent: AgentSpec) -> Path:
        """Keep an agent without its links, in the place of one with its name; its file. Raises StorageError."""
        alone = unlinked(agent)
        part = FlowSpec(name=alone.name, start=alone.name, agents=(alone,))
        before = self.named(alone.name)
        path = before.path if before is not None else self._free_path(alone.name)
        _make(self._folder)
        save_flow(part, path)
        self.read()
        return path

    def rename(self, saved: SavedAgent, name: str) -> None:
        """Give a saved agent another name, in its file and of it. Raises StorageError and FlowFileError."""
        part = load_flow(saved.path).spec
        renamed = rename_agent(part, part.agents[0].name, name)
        path = self._free_path(name)
        save_flow(replace(renamed, name=name), path)
        self.delete(saved)

    def delete(self, saved: SavedAgent) -> None:
        """Remove a saved agent for good; that it is gone already is no fault. Raises StorageError."""
        try:
            saved.path.unlink(missing_ok=True)
        except OSError as error:
            message = _told(translate("agent_library", "%1 cannot be deleted: %2."), saved.path, error)
            raise StorageError(message, facts={"path": str(saved.path)}) from error
        self.read()

    def _free_path(self, name: str) -> Path:
        stem = _UNSAFE.sub("-", name).strip("-")[:_LONGEST] or "agent"
        path, number = self._folder / f"{stem}{SUFFIX}", 2
        while path.exists():
            path, number = self._folder / f"{stem}-{number}{SUFFIX}", number + 1
        return path


def _told(text: str, path: Path, error: OSError) -> str:
    return text.replace("%2", error.strerror or str(error)).replace("%1", str(path))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = _told(translate("agent_library", "The folder %1 cannot be made: %2."), folder, error)
        raise StorageError(message, facts={"path": str(folder)}) from error


def _load(path: Path) -> SavedAgent:
    stem = path.name.removesuffix(SUFFIX)
    try:
        part = load_flow(path).spec
    except EngineError as error:
        return SavedAgent(name=stem, path=path, part=None, fault=error.message)
    if len(part.agents) != 1:
        found = translate("agent_library", "%1: a saved agent is a flow of one agent, found %2.")
        fault = found.replace("%2", str(len(part.agents))).replace("%1", path.name)
        return SavedAgent(name=stem, path=path, part=None, fault=fault)
    return SavedAgent(name=part.agents[0].name, path=path, part=part)
