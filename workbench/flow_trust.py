"""Whether the flow of a tab is trusted: what it may run, and the question when it may not."""

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine import Engine, PluginError, Plugins
from engine.flow.abilities import plugin_uses
from engine.flow.flow import Flow
from engine.flow.flow_spec import FlowSpec
from engine.flow.subflow_files import origin_path
from engine.flow_access import Access, known_plugins
from workbench.designer.flow_document import FlowDocument


class FlowTrust(QObject):
    """Follows one document. Edits made here never ask; other code in the folder beside the flow always does."""

    changed = Signal()
    """It was trusted."""

    def __init__(self, document: FlowDocument, engine: Engine, *, made_here: bool, parent: QObject) -> None:
        """Follow a flow; `begin` looks at it.

        Args:
            document: the flow.
            engine: decides and remembers.
            made_here: a sample, or a flow that was never a file; not a recorded run.
        """
        super().__init__(parent)
        self._document = document
        self._access = engine.access
        self._own = made_here
        self._folder = ""
        """Digest of the plug-ins that were trusted."""
        self._known: tuple[Path | None, tuple[str, ...], Plugins] | None = None
        self.fault: PluginError | None = None
        """Why the plug-ins cannot be read."""
        self._opened = document.spec

    def begin(self) -> Access | None:
        """Look at the flow as it was opened; tell what a run needs trust for. Reads files: in a thread."""
        self._remember(self._opened)
        return self.restricted

    @property
    def restricted(self) -> Access | None:
        """What a run would need trust for; None when it may run."""
        access = self._look(self._document.spec)
        return access if access is not None and access.restricted else None

    def look(self) -> Access | None:
        """What the flow can do now, and whether it may; None while its plug-ins cannot be read."""
        return self._look(self._document.spec)

    def plugins(self, spec: FlowSpec) -> Plugins:
        """The plug-ins the flow can name, for checks; read again when the names or the file change."""
        names = tuple(sorted({use.name for use in plugin_uses(spec)}))
        path = self._document.path
        if self._known is None or self._known[:2] != (path, names):
            self._known = (path, names, self._read(spec))
        return self._known[2]

    def build(self, spec: FlowSpec) -> Flow:
        """The flow that runs; raises FlowInvalid, and NotTrusted when it needs trust it does not have."""
        return self._access.build(
            spec,
            self._document.path,
            made_here=self._own,
            trusted_folder=self._folder,
            origin=self._document.origin,
        )

    def recorded(self, origin: str) -> tuple[Access, Flow | None]:
        """A flow that was recorded, with what lies beside the file it came from; None: it needs trust it does not have.

        `origin` is that of the run. Raises PluginError and FlowInvalid.
        """
        spec, path = self._document.spec, origin_path(origin)
        access = self._access.look_at(spec, path)
        return access, None if access.restricted else self._access.build(spec, path, origin=origin)

    def trust(self, access: Access) -> None:
        """Trust what was looked at; raises StorageError."""
        self._access.trust(access)
        self._accept(access)
        self.changed.emit()

    def saved(self) -> None:
        """Keep a trusted flow so after its file has changed; raises StorageError."""
        access = self._look(self._document.spec)
        if access is not None and access.trust.trusted:
            self._access.trust(access)

    def read_again(self) -> None:
        """Its file was read again: what others wrote into it was not made here."""
        self._own, self._folder = False, ""
        self._remember(self._document.spec)

    def _remember(self, spec: FlowSpec) -> None:
        access = self._look(spec)
        if access is not None and access.trust.trusted:
            self._accept(access)

    def _accept(self, access: Access) -> None:
        self._own = True
        self._folder = access.folder.digest if access.folder else ""

    def _look(self, spec: FlowSpec) -> Access | None:
        self._known = None
        try:
            access = self._access.look_at(spec, self._document.path, made_here=self._own, trusted_folder=self._folder)
        except PluginError as error:
            self.fault = error
            return None
        self.fault = None
        return access

    def _read(self, spec: FlowSpec) -> Plugins:
        try:
            return known_plugins(spec, self._document.path)
        except PluginError as error:
            self.fault = error
            return Plugins()
