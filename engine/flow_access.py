"""What a flow gets to use: its plug-ins, where its expressions run, and whether it is trusted."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from engine.code_process import CodeWorkers
from engine.errors import NotTrusted
from engine.flow.abilities import Ability, abilities, executable_parts, inner_flows, needs_folder
from engine.flow.evaluator import IN_PROCESS, WorkerEvaluator
from engine.flow.flow import Flow
from engine.flow.flow_build import build_flow
from engine.flow.flow_spec import FlowSpec
from engine.flow.subflow_files import FlowFiles
from engine.plugin_folder import PluginFolder
from engine.plugins import Plugins, folder_workers
from engine.trust import Approval, Trust, TrustStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A flow with what it can do and whether it may, as it was when it was looked at."""

    name: str
    path: Path | None
    folder: PluginFolder | None
    parts: dict[str, str]
    abilities: tuple[Ability, ...]
    trust: Trust

    @property
    def restricted(self) -> bool:
        """Whether a run needs trust that is missing."""
        return not self.trust.trusted and any(ability.restricted for ability in self.abilities)

    @property
    def has_code(self) -> bool:
        """Whether it runs code of plug-ins."""
        return any(ability.kind in ("code", "tool") and ability.restricted for ability in self.abilities)


class FlowAccess:
    """Decides about flows and owns the processes their code runs in; none starts before a run needs one."""

    def __init__(self, trust: TrustStore) -> None:
        self._trust = trust
        self._sandbox: WorkerEvaluator | None = None
        self._workers: dict[str, CodeWorkers] = {}
        """By digest of the folder."""

    def look_at(
        self, spec: FlowSpec, path: Path | None = None, *, made_here: bool = False, trusted_folder: str = ""
    ) -> Access:
        """What the flow of this file can do and whether it may; reads its plug-ins, runs nothing.

        Args:
            path: its file, beside which its plug-ins are.
            made_here: the flow itself was made in this program, or trusted and then edited in it.
            trusted_folder: digest of the plug-ins that were trusted with it; others are asked about all the same.
        """
        inner = inner_flows(spec, FlowFiles("" if path is None else str(path)))
        folder = _folder((spec, *inner.values()), path)
        parts = executable_parts(spec, folder, inner)
        own = made_here and (folder is None or folder.digest == trusted_folder)
        trust = Trust(state="trusted") if own else self._trust.state(parts, name=spec.name, path=path)
        plugins = Plugins(folder)
        found = [ability for one in (spec, *inner.values()) for ability in abilities(one, plugins)]
        return Access(name=spec.name, path=path, folder=folder, parts=parts, abilities=_ordered(found), trust=trust)

    def trust(self, access: Access) -> None:
        """Trust what was looked at, not what the file has become since; raises StorageError."""
        self._trust.trust(access.parts, name=access.name, path=access.path)

    def approvals(self) -> list[Approval]:
        """The flows that are trusted, the last one first."""
        return self._trust.approvals()

    def withdraw(self, approval: Approval) -> None:
        """Take back what `approvals` listed; raises StorageError."""
        self._trust.withdraw(approval)

    def plugins(self, access: Access) -> Plugins:
        """The plug-ins of a flow that was looked at; those of its folder run only when it is trusted."""
        return self._running(access.folder) if access.trust.trusted else Plugins(access.folder)

    def revoke(self, access: Access) -> bool:
        """Take trust back; whether there was any."""
        return self._trust.revoke(access.parts, path=access.path)

    def build(
        self,
        spec: FlowSpec,
        path: Path | None = None,
        *,
        made_here: bool = False,
        trusted_folder: str = "",
        once: bool = False,
        origin: str = "",
    ) -> Flow:
        """The flow that runs; raises FlowInvalid, and NotTrusted when it needs trust it does not have.

        `path`, `made_here` and `trusted_folder` are as for `look_at`; `once` trusts all of it for this run. `origin` is
        that of the LoadedFlow, beside which the flows it runs as nodes are; missing: its file.
        """
        access = self.look_at(spec, path, made_here=made_here, trusted_folder=trusted_folder)
        if once:
            access = replace(access, trust=Trust(state="trusted"))
        if access.restricted:
            raise not_trusted(access)
        origin = origin or ("" if path is None else str(path))
        if access.trust.trusted:
            return build_flow(spec, origin=origin, plugins=self._running(access.folder), evaluator=IN_PROCESS)
        return build_flow(spec, origin=origin, plugins=Plugins(access.folder), evaluator=self._foreign())

    def _running(self, folder: PluginFolder | None) -> Plugins:
        if folder is None:
            return Plugins()
        workers = self._workers.get(folder.digest)
        if workers is None:
            workers = self._workers[folder.digest] = folder_workers(folder)
        return Plugins(folder, workers)

    def _foreign(self) -> WorkerEvaluator:
        if self._sandbox is None:
            self._sandbox = WorkerEvaluator()
        return self._sandbox

    async def aclose(self) -> None:
        """End all processes."""
        for workers in (*self._workers.values(), *([self._sandbox.workers] if self._sandbox else [])):
            await workers.aclose()


def not_trusted(access: Access) -> NotTrusted:
    """What a run raises that needs trust."""
    first = next(ability for ability in access.abilities if ability.restricted)
    count = sum(ability.restricted for ability in access.abilities) - 1
    more = f" (and {count} more)" if count else ""
    changed = "changed since it was trusted" if access.trust.state == "changed" else "was not made here"
    return NotTrusted(
        f'The flow "{access.name}" {changed} and needs your trust: {first.text.rstrip(".")}{more}.',
        hint="`workbench trust FLOW` shows all it can do and asks; `run --trust` trusts it once.",
        facts={"abilities": "\n".join(ability.text for ability in access.abilities)},
    )


def known_plugins(spec: FlowSpec, path: Path | None = None) -> Plugins:
    """The plug-ins the flow of a file can name, for checks: those of its folder do not run."""
    inner = inner_flows(spec, FlowFiles("" if path is None else str(path)))
    return Plugins(_folder((spec, *inner.values()), path))


def _folder(specs: Iterable[FlowSpec], path: Path | None) -> PluginFolder | None:
    return PluginFolder.beside(path) if path is not None and any(map(needs_folder, specs)) else None


def _ordered(found: Iterable[Ability]) -> tuple[Ability, ...]:
    """Each once, what is restricted first."""
    return tuple(sorted(dict.fromkeys(found), key=lambda ability: not ability.restricted))
