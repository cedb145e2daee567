"""The examples of the pages do what the pages show."""

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("templates", "branching", "trace", "budgets", "sensitive-data")


@pytest.mark.parametrize("name", PAGES)
def test_the_examples_of_a_page(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    sessions = re.findall(r"```pycon\n(.*?)```", text, re.DOTALL)
    assert sessions
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    test = parser.get_doctest("\n".join(sessions), {}, name, f"{name}.md", 0)
    said: list[str] = []
    result = runner.run(test, out=said.append)
    assert result.failed == 0, "".join(said)
    assert result.attempted > 4


@pytest.mark.parametrize("name", PAGES)
def test_the_links_of_a_page(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    assert [link for link in links if not (DOCS / link).exists()] == []
