"""The prompt library: which text is found, one pass of variables, the sandbox, snapshots, the user's own texts."""

import logging
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import StorageError, TemplateError
from engine.prompt_check import prompt_problems, sample_values, variables
from engine.prompt_library import (
    Prompt,
    PromptChanged,
    PromptError,
    PromptFile,
    PromptLibrary,
    PromptSnapshot,
    date_text,
    fill,
    tool_lines,
)

SHIPPED = PromptLibrary()


def test_every_shipped_prompt_has_both_languages_and_no_fault() -> None:
    keys = SHIPPED.keys()
    assert len(keys) == 29
    for key in keys:
        assert SHIPPED.languages(key) == ["en", "zh"]
        for language in ("en", "zh"):
            prompt = SHIPPED.find(key, language)
            assert prompt.shipped
            assert prompt.text.strip()
            assert prompt_problems(SHIPPED, prompt) == []
        assert SHIPPED.find(key, "en").variables == SHIPPED.find(key, "zh").variables


def test_the_language_is_exact_then_without_region_then_default_then_english(tmp_path: Path) -> None:
    library = PromptLibrary(tmp_path)
    key = "task.pre_prompt"
    assert library.find(key, "zh-CN").language == "zh"
    assert library.find(key, "fr").language == "en"
    library.save(key, "default", "D")
    library.save(key, "zh-CN", "C")
    assert [library.find(key, asked).text for asked in ("zh-CN", "fr")] == ["C", "D"]
    assert library.find(key, "zh").shipped
    with pytest.raises(PromptError, match="no prompt"):
        library.find("nobody.prompt")


def test_own_texts_win_are_reset_and_keep_their_history(tmp_path: Path) -> None:
    library = PromptLibrary(tmp_path / "prompts")
    key, shipped = "react.base_prompt", SHIPPED.find("react.base_prompt")
    one, two = library.save(key, "en", "one"), library.save(key, "en", "two")
    assert (one.shipped, one.version == two.version, library.find(key).text) == (False, False, "two")
    assert library.shipped(key, "en") == shipped
    library.reset(key, "en")
    assert library.find(key) == shipped
    assert [version.read() for version in library.earlier(key, "en")] == [b"two", b"one"]
    for number in range(30):
        library.save(key, "en", str(number))
    assert len(library.earlier(key, "en")) == 20


def test_a_text_that_was_changed_elsewhere_is_not_overwritten(tmp_path: Path) -> None:
    library, key = PromptLibrary(tmp_path), "react.base_prompt"
    shipped = library.find(key)
    saved = library.save(key, "en", "mine", replaces=shipped.version)
    with pytest.raises(PromptChanged, match=r"react\.base_prompt in en was changed"):
        library.save(key, "en", "theirs", replaces=shipped.version)
    assert library.find(key).text == "mine"
    assert library.save(key, "en", "theirs", replaces=saved.version).text == "theirs"
    with pytest.raises(PromptError, match="at most"):
        library.save(key, "en", "x" * 1_000_001)


def test_the_list_tells_which_texts_differ_and_which_cannot_be_read(tmp_path: Path) -> None:
    library, key = PromptLibrary(tmp_path), "react.base_prompt"
    assert len(library.entries()) == 58
    assert not any(entry.own or entry.differs or entry.fault for entry in library.entries())
    library.save(key, "en", SHIPPED.find(key).text)
    library.save(key, "zh", "other")
    library.save(key, "de", "neu")
    (tmp_path / "sop.none.en.md").write_bytes(b"\xff")
    by_place = {(entry.key, entry.language): entry for entry in library.entries()}
    found = [(by_place[key, language].own, by_place[key, language].differs) for language in ("en", "zh", "de")]
    assert found == [(True, False), (True, True), (True, True)]
    assert not by_place[key, "de"].shipped
    assert "no UTF-8 text" in by_place["sop.none", "en"].fault
    library.reset("sop.none", "en")
    assert library.find("sop.none", "en").shipped
    assert [version.read() for version in library.earlier("sop.none", "en")] == [b"\xff"]


def test_earlier_texts_move_with_the_folder(tmp_path: Path) -> None:
    library = PromptLibrary(tmp_path / "here")
    for text in ("one", "two"):
        library.save("react.base_prompt", "en", text)
    (tmp_path / "here").rename(tmp_path / "there")
    (version,) = PromptLibrary(tmp_path / "there").earlier("react.base_prompt", "en")
    assert version.read() == b"one"


@pytest.mark.parametrize("text", ["{", "[]", '{"en": 1}'])
def test_a_map_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(PromptError):
        PromptLibrary(tmp_path).import_map("react.base_prompt", text)


def test_a_map_is_imported_and_odd_names_are_not(tmp_path: Path) -> None:
    library = PromptLibrary(tmp_path)
    library.import_map("react.base_prompt", '{"en": "E", "zh": "Z"}')
    assert [library.find("react.base_prompt", language).text for language in ("en", "zh")] == ["E", "Z"]
    with pytest.raises(PromptError):
        library.save("../x", "en", "no")
    (tmp_path / "react.base_prompt.fr.md").write_bytes(b"\xff")
    with pytest.raises(StorageError, match="no UTF-8"):
        library.find("react.base_prompt", "fr")


def test_the_snapshot_follows_the_files_and_nothing_else(tmp_path: Path) -> None:
    library = PromptLibrary(tmp_path)
    library.save("react.system_prompt", "en", "{{query}}|{{ files }}|{{sopPrompt}}|{{nobody}}")
    values = {"query": "say {{files}}", "sopPrompt": "do {{sop}}", "sop": "{{query}}"}
    snapshot = PromptSnapshot.take(library, ["react.system_prompt"], "en", values)
    a, b = PromptFile(name="a.csv", description="A", url="u"), PromptFile(name="b.md", internal=True)
    line = "fileName:a.csv fileDesc:A fileUrl:u"
    library.save("react.system_prompt", "en", "changed")
    assert snapshot.render("react.system_prompt", [a, b]) == f"say {{{{files}}}}|{line}|do {{{{query}}}}|"
    assert "b.md" in snapshot.render("react.system_prompt", [a, b], internal=True)
    assert snapshot.render("react.system_prompt") == "say {{files}}||do {{query}}|"
    assert PromptSnapshot.take(library, ["react.system_prompt"], "en", {}).render("react.system_prompt") == "changed"


def test_a_missing_value_is_empty_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    snapshot = PromptSnapshot.take(SHIPPED, ["executor.sop_prompt"], "zh-CN", {})
    assert "{{" not in snapshot.render("executor.sop_prompt")
    assert [record.getMessage() for record in caplog.records] == [
        "The prompt executor.sop_prompt has no value for {{sop}}."
    ]
    assert snapshot.prompts["executor.sop_prompt"].language == "zh"


@given(st.text(), st.text())
def test_what_is_inserted_is_never_scanned(one: str, two: str) -> None:
    assert fill("<{{a}}|{{ b }}|{{a}}>", {"a": one, "b": two}) == f"<{one}|{two}|{one}>"


def test_dates_and_tools_as_the_language_writes_them() -> None:
    day = date(2025, 7, 8)
    assert [date_text(day, language) for language in ("zh-CN", "en")] == ["2025年7月8日 星期二", "Tuesday, 8 July 2025"]
    assert tool_lines({"b": "two\nlines", "a": "one"}) == "a: one\nb: two lines"


def test_reports_loop_over_their_files() -> None:
    files = [{"title": "T1", "link": "", "content": "C1"}, {"title": "T2", "link": "L2", "content": "{{ task }}"}]
    values = {"task": "say", "current_time": "now", "files": files, "key_files": []}
    text = SHIPPED.render(SHIPPED.find("report.markdown"), values)
    assert "## T1\n" in text
    assert "## T2 (L2)" in text
    assert "\n{{ task }}\n" in text
    assert "Most important" not in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one\n{{ nobody }}", "line 2.*nobody"),
        ("{% if %}", "line 1"),
        ("{% include 'x' %}", "report.html.en"),
        ("{{ ''.__class__ }}", "report.html.en"),
    ],
)
def test_what_a_template_must_not_do_is_told_with_its_place(text: str, words: str) -> None:
    prompt = Prompt(key="report.html", language="en", text=text, shipped=False, jinja=True)
    with pytest.raises(TemplateError, match=words):
        SHIPPED.render(prompt, {})


def test_names_nobody_fills_are_marked() -> None:
    prompt = Prompt(key="react.base_prompt", language="en", text="{{query}} {{qery}}", shipped=False)
    (unknown, *_) = prompt_problems(SHIPPED, prompt)
    assert unknown.message == "Nothing fills {{qery}}: it will be empty."
    assert (unknown.line, unknown.column, unknown.severity) == (1, 11, "warning")


def test_what_the_shipped_text_uses_and_this_one_does_not_is_told() -> None:
    prompt = Prompt(key="task.pre_prompt", language="en", text="", shipped=False)
    assert prompt_problems(SHIPPED, prompt) == []
    prompt = Prompt(key="sop.common", language="fr", text="a\n {{ sop }}{{ sopp }}", shipped=False)
    told = [(str(problem.line), str(problem.column), problem.message) for problem in prompt_problems(SHIPPED, prompt)]
    assert told == [
        ("2", "11", "Nothing fills {{sopp}}: it will be empty."),
        ("0", "0", "The shipped text uses {{sop_length}} (line 2), this one does not."),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{{ task }}\n{% if nobody is defined %}{{ nobody }}{% endif %}", (2, 7, "Nothing fills {{ nobody }}")),
        ("{{ task }}\n{% for x in task %}", (2, 1, "report.markdown.en, line 2")),
        ("{% set x = 1 %}{{ x }}{{ range(3)|length }}", (0, 0, "The shipped text uses {{task}} (line 1)")),
    ],
)
def test_templates_are_checked_by_reading_them(text: str, told: tuple[int, int, str]) -> None:
    prompt = Prompt(key="report.markdown", language="en", text=text, shipped=False, jinja=True)
    first = prompt_problems(SHIPPED, prompt)[0]
    assert (first.line, first.column) == told[:2]
    assert first.message.startswith(told[2])


def test_every_prompt_has_a_preview() -> None:
    for entry in SHIPPED.entries():
        prompt = SHIPPED.find(entry.key, entry.language)
        values = sample_values(prompt, variables(prompt))
        assert all(values.values()), entry.key
        text = SHIPPED.preview(prompt, values)
        assert "{{" not in text
        assert not prompt.jinja or "{%" not in text


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "prompt-library.md").read_text("utf-8")
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(code, "example", "exec"), names)
    examples = [names[name] for name in ("shorter_tasks", "system_prompts", "report")]
    assert all(example(tmp_path) for example in examples)
