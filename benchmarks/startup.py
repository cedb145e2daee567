"""P9: the engine's import, and the first window beside a bare Qt window. Whole processes, interleaved, medians."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from table import Table

HEAVY = ("PySide6", "numpy", "httpx", "aiohttp", "tiktoken", "pyqtgraph")
END = """
import os, sys
print(int(open('/proc/self/statm').read().split()[1]) * 4096 / 2**20)
sys.stdout.flush(); os._exit(0)
"""
BARE = """
from PySide6.QtWidgets import QApplication, QMainWindow, QPlainTextEdit
app = QApplication([])
window = QMainWindow(); window.setCentralWidget(QPlainTextEdit()); window.show()
app.processEvents()
"""
FRAME = """
import sys
sys.argv = ["workbench"]
from workbench import __main__ as program
import workbench.app as application
show_frame = application.show_frame
def shown(*arguments):
    show_frame(*arguments)
    import os, sys
    print(int(open('/proc/self/statm').read().split()[1]) * 4096 / 2**20)
    sys.stdout.flush(); os._exit(0)
application.show_frame = shown
program.main()
"""
READY = """
import sys
sys.argv = ["workbench"]
from workbench import __main__ as program
import workbench.desk
start = workbench.desk.Desk.start
def started(self, documents):
    self.engine.server.find_model = lambda: None  # the server starts beside the window, in its own process
    start(self, documents)
    self.tasks.start(painted())
async def painted():
    from PySide6.QtWidgets import QApplication
    QApplication.processEvents()
    finish()
def finish():
    import os, sys
    print(int(open('/proc/self/statm').read().split()[1]) * 4096 / 2**20)
    sys.stdout.flush(); os._exit(0)
workbench.desk.Desk.start = started
program.main()
"""


def run(code: str, compiled: str) -> tuple[float, float]:
    """Wall milliseconds of a process and its resident MiB at the end; `compiled` is the folder of its bytecode.

    As for a person, every start but the first finds its modules compiled, also where the environment says otherwise.
    """
    with tempfile.TemporaryDirectory() as home:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"QT_QPA_PLATFORM": "offscreen", "WORKBENCH_HOME": home, "PYTHONPYCACHEPREFIX": compiled}
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code + END], env=environment, capture_output=True, text=True, check=True
        )
        return (time.perf_counter() - began) * 1000, float(done.stdout.split()[-1])


def imported(code: str) -> set[str]:
    """Which of the heavy packages an import brings in."""
    program = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )


def main(rounds: int) -> int:
    """Measure and print."""
    table = Table("Start (P9)")
    for code in ("import engine", "import engine; engine.Engine", "import engine.cli"):
        heavy = imported(code)
        table.row(code, ", ".join(sorted(heavy)) or "none", "-", None, "no Qt, numpy, HTTP", not heavy)
    programs = {
        "nothing": "pass",
        "engine": "import engine; engine.Engine",
        "bare": BARE,
        "frame": FRAME,
        "ready": READY,
    }
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as compiled:
        for code in programs.values():
            run(code, compiled)  # compiles, and fills the page cache
        for _ in range(rounds):
            for name, code in programs.items():
                figures[name].append(run(code, compiled))
    wall = {name: statistics.median(item[0] for item in items) for name, items in figures.items()}
    memory = {name: statistics.median(item[1] for item in items) for name, items in figures.items()}
    empty, bare, ours = wall["nothing"], wall["bare"], wall["frame"]
    above = f"{wall['engine'] - empty:.0f} ms"
    table.row("import of the engine, above bare Python", above, f"{empty:.0f} ms", None, "", None)
    ratio = ours / bare
    window = f"{bare:.0f} ms (bare Qt)"
    table.row("first window, whole process", f"{ours:.0f} ms", window, ratio, "<= 2.5x", ratio <= 2.5)
    drawn = f"{wall['ready']:.0f} ms"
    table.row("flow drawn, whole process", drawn, window, wall["ready"] / bare, "", None)
    size, bare_size = memory["frame"], f"{memory['bare']:.0f} MiB (bare Qt)"
    table.row("memory of the first window", f"{size:.0f} MiB", bare_size, None, "<= 90 MiB", size <= 90)
    return table.finish()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    sys.exit(main(3 if parser.parse_args().quick else 9))
