"""Make the pictures of README and documentation: real runs on the embedded model, drawn by `workbench screenshot`."""

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
QUESTIONS = """question,expected
What is the capital of France?,Paris
How many legs has a spider?,8
Which planet is the largest?,Jupiter
What do bees make?,honey
"""
PROMPT = "Answer in one short sentence: {{question}}"
PICTURES = {
    "window": ("flow", "dark"),
    "window-light": ("flow", "light"),
    "trace": ("trace", "dark"),
    "inspector": ("inspector", "dark"),
    "prompts": ("prompts", "dark"),
    "tools": ("tools", "dark"),
    "settings": ("settings-limits", "dark"),
    "compare": ("compare", "dark"),
    "profiles": ("profiles", "dark"),
    "dashboard": ("dashboard", "dark"),
}
"""File name → page and theme."""


def workbench(home: Path, *arguments: str | Path) -> None:
    """Run a command on a data folder of its own."""
    command = [sys.executable, "-m", "workbench", "--data-dir", str(home), *map(str, arguments)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command


def main(wanted: Iterable[str]) -> None:
    """Make the pictures with these names, or all."""
    with tempfile.TemporaryDirectory() as folder:
        home, questions = Path(folder) / "data", Path(folder) / "questions.csv"
        questions.write_text(QUESTIONS, "utf-8")
        warm = (ROOT / "profiles" / "embedded-chat.properties").read_text("utf-8")
        (home / "profiles").mkdir(parents=True)
        (home / "profiles" / "embedded-warm.properties").write_text(
            warm.replace("temperature=0", "temperature=1.2").replace("category=", "#"), "utf-8"
        )
        profiles = "embedded-chat,embedded-warm"
        workbench(
            home, "compare", "--prompt", PROMPT, "--profiles", profiles, "--dataset", questions, "--expect", "expected"
        )
        workbench(home, "run", "release-announcement")
        for name in wanted or PICTURES:
            page, theme = PICTURES[name]
            size = ("--size", "1536x920", "--run", "last", "--theme", theme)
            workbench(home, "screenshot", "--page", page, "-o", HERE / f"{name}.png", *size)


if __name__ == "__main__":
    main(sys.argv[1:])
