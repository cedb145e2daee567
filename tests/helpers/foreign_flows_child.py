"""Opens, checks, pictures and searches flows under an audit hook; prints what that started. A process of its own.

Audit hooks cannot be taken away again. What Qt does in its own code they do not see: the watch on processes does.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from PySide6.QtWidgets import QApplication

from engine import Engine, ProfileStore, RunHistory, check_flow, flow_text, load_flow
from engine.flow.flow_check import check_loaded
from engine.flow.flow_schema import schema_text
from engine.flow_access import FlowAccess, known_plugins
from engine.folders import Folders
from engine.plugins import KINDS
from engine.trust import TrustStore
from workbench.app import make_application
from workbench.desk import Desk
from workbench.event_loop import run_application
from workbench.log_dock import QtLogHandler
from workbench.main_window import MainWindow
from workbench.settings import Settings
from workbench.theme import theme

STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "os.startfile")
STARTS += ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
STARTS += ("webbrowser.open", "ctypes.dlopen", "pty.spawn", "urllib.Request", "compile", "exec")
FILES = ("open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.mkdir", "os.truncate", "shutil.copyfile")
events: list[str] = []


class Watch:
    """Notes each event that has no business while flows are only looked at."""

    def __init__(self, flows: Path, home: Path) -> None:
        self.on = False
        allowed = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]), str(home), str(flows))
        self._allowed = tuple(os.path.realpath(path) for path in (*allowed, *filter(None, sys.path)))

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.on:
            return
        self.on = False  # what the watch does itself is no news
        try:
            if event in STARTS and not self._is_own(event, arguments):
                events.append(f"{event}: {str(arguments)[:200]}")
            elif event == "import" and "payload" in str(arguments[0]):
                events.append(f"import: {arguments[0]}")
            elif event in FILES and isinstance(arguments[0], str | bytes | os.PathLike):
                path = os.path.realpath(os.fsdecode(arguments[0]))
                if not path.startswith((*self._allowed, "/dev/null", "/proc/self")):
                    events.append(f"{event}: {path}")
        finally:
            self.on = True

    @staticmethod
    def _is_own(event: str, arguments: tuple[object, ...]) -> bool:
        """Code of the program that is imported late, or text that only becomes a syntax tree, as that of plug-ins."""
        if event not in ("compile", "exec", "ctypes.dlopen"):
            return False
        name = str(getattr(arguments[0], "co_filename", arguments[1] if len(arguments) > 1 else ""))
        return name not in ("<template>", "<unknown>") and not (event == "exec" and "payload" in name)


def look_at(file: Path, profiles: ProfileStore, access: FlowAccess) -> None:
    """Everything the command line does with a flow without running it."""
    loaded = load_flow(file, tolerant=True)
    plugins = known_plugins(loaded.spec, file)
    check_loaded(loaded, profiles=profiles, plugins=plugins)
    check_flow(loaded.spec)
    for kind in KINDS:
        plugins.names(kind)
    found = access.look_at(loaded.spec, file)
    if not found.restricted:
        events.append(f"{file.name} would run")
    flow_text(loaded.spec)


async def show(app: QApplication, files: list[Path], home: Folders, watch: Watch) -> int:
    """Open each flow in the window, paint it, search it, and take its picture."""
    window = MainWindow(QtLogHandler())
    engine = Engine(
        profiles=ProfileStore(home.profiles),
        history=RunHistory(home.history),
        access=FlowAccess(TrustStore(home.root)),
    )
    desk = Desk(window, engine, Settings(home.settings), home)
    window.resize(1200, 800)
    window.show()
    await desk.documents.open("release-announcement")
    await asyncio.sleep(0.2)  # what the window does anyway
    watch.on = True
    for file in files:
        tab = await desk.documents.open(str(file))
        assert tab is not None, file
        tab.check()
        for agent in tab.document.spec.agents:
            tab.editor.select([agent.name])
        tab.editor.fit_all()
        for _ in range(3):
            await asyncio.sleep(0)
            app.processEvents()
        tab.editor.grab()
        window.grab()
    desk.overview.refresh_lists()
    desk.overview.open_palette()
    app.processEvents()
    if (palette := QApplication.activePopupWidget() or QApplication.activeModalWidget()) is not None:
        palette.close()
    watch.on = False
    await desk.shut_down()
    await engine.close()
    window.allow_close()
    window.close()
    return 0


def main() -> int:
    """Look at the flows of a folder, and open every nth in the window; prints the events as JSON."""
    folder = Path(sys.argv[1])
    files = sorted(folder.glob("*.flow.json"))
    with tempfile.TemporaryDirectory() as temporary:
        home = Folders(Path(temporary))
        watch = Watch(folder, home.root)
        profiles = ProfileStore(home.profiles)
        profiles.names()
        schema_text()
        access = FlowAccess(TrustStore(home.root))
        app = make_application()
        theme.reduced_motion = True
        theme.install("dark")
        sys.addaudithook(watch)
        watch.on = True
        for file in files:
            look_at(file, profiles, access)
        watch.on = False
        status = run_application(app, show(app, files[:: int(sys.argv[2])], home, watch))
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    left = children.read_text().split() if children.exists() else []
    print(json.dumps({"flows": len(files), "events": events, "children": left}))
    return status


if __name__ == "__main__":
    sys.exit(main())
