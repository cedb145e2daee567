"""Where the program keeps what it writes: one data folder, by option, `WORKBENCH_HOME` or the system's custom."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Folders:
    """The places inside the data folder; they are created when something is written."""

    root: Path

    @property
    def profiles(self) -> Path:
        """The user's profiles and `categories.properties`; they win over the bundled ones of the same name."""
        return self.root / "profiles"

    @property
    def flows(self) -> Path:
        """The user's flows."""
        return self.root / "flows"

    @property
    def agents(self) -> Path:
        """The user's saved agents, for use in any flow."""
        return self.root / "agents"

    @property
    def prompts(self) -> Path:
        """The user's own prompts of agents and tools."""
        return self.root / "prompts"

    @property
    def datasets(self) -> Path:
        """The user's datasets."""
        return self.root / "datasets"

    @property
    def recovery(self) -> Path:
        """Unsaved versions of documents."""
        return self.root / "recovery"

    @property
    def versions(self) -> Path:
        """Saved versions of flows before the last."""
        return self.root / "versions"

    @property
    def history(self) -> Path:
        """The database of recorded runs."""
        return self.root / "history.sqlite"

    @property
    def cache(self) -> Path:
        """The database of kept answers."""
        return self.root / "cache.sqlite"

    @property
    def tapes(self) -> Path:
        """The wire tapes of the last runs of the window."""
        return self.root / "tapes"

    @property
    def engine_settings(self) -> Path:
        """Settings of the engine, for the window and the command line alike."""
        return self.root / "engine.json"

    @property
    def batches(self) -> Path:
        """The database of batches and the results of their rows."""
        return self.root / "batches.sqlite"

    @property
    def comparisons(self) -> Path:
        """The database of comparisons and the results of their cells."""
        return self.root / "comparisons.sqlite"

    @property
    def server(self) -> Path:
        """State of the embedded model server."""
        return self.root / "server"

    @property
    def settings(self) -> Path:
        """Settings of the window."""
        return self.root / "settings.ini"

    @property
    def log(self) -> Path:
        """The rotating log file."""
        return self.root / "workbench.log"


def data_folders(folder: str | Path | None = None) -> Folders:
    """The data folder: `folder`, else the variable `WORKBENCH_HOME`, else the user's data folder of this system."""
    chosen = folder or os.environ.get("WORKBENCH_HOME")
    if chosen:
        return Folders(Path(chosen).expanduser().absolute())
    from platformdirs import user_data_path

    return Folders(user_data_path("flow-workbench", appauthor=False))
