"""Links and file names in the documents lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")]

LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
FILE = re.compile(r"`((?:engine|workbench|tests|profiles|resources|docs|benchmarks)/[\w./-]+)`")
"""A path of the repository in code font; patterns and placeholders have other characters."""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_document_names_exists(document: Path) -> None:
    text = document.read_text("utf-8")
    links = [document.parent / link for link in LINK.findall(text)]
    missing = [str(path) for path in [*links, *(ROOT / name for name in FILE.findall(text))] if not path.exists()]
    assert missing == []


def test_links_and_names_are_seen() -> None:
    assert LINK.findall("[a](docs/x.md#part) [b](https://x.org) [c](#here)") == ["docs/x.md"]
    assert FILE.findall("`engine/cli.py` `engine/*.py` `docs/<name>.md` `make run`") == ["engine/cli.py"]
