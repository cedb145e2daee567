"""What is wrong with the text of a prompt, and values to look at it with (docs/prompt-library.md)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

from engine.errors import Problem, TemplateError
from engine.prompt_library import JINJA, PLAIN, VARIABLES, Prompt, PromptLibrary, date_text, slots, template_error

_SAMPLES: Mapping[str, object] = {
    "query": "Compare the prices of the three shops and tell which one is cheapest.",
    "task": "Read prices.csv and list the cheapest shop for each article.",
    "history": "user: Which shops are there?\nassistant: North, Harbour and Station.",
    "taskHistory": "1. Read the file: 12 articles in 3 shops.\n2. Compared them: Harbour is cheapest for 7.",
    "files": "fileName:prices.csv fileDesc:prices of all shops fileUrl:",
    "fileNameDesc": "prices.csv: prices of all shops",
    "tools": "calculator: Calculates with numbers.\nclock: Tells the date and time now.",
    "ToolsDesc": "calculator: Calculates with numbers.",
    "basePrompt": "Be brief and give each figure its unit.",
    "sop": "1. Read all files.\n2. Compare article by article.\n3. Name the cheapest shop.",
    "sop_length": "2",
    "sopPrompt": "Follow this procedure:\n1. Read all files.\n2. Compare article by article.",
    "executorSopPrompt": "Follow this procedure:\n1. Read all files.\n2. Compare article by article.",
    "output_dir": "output",
    "current_time": "2026-03-03 14:05",
}
_SAMPLE_FILE: Mapping[str, str] = {
    "title": "prices.csv",
    "description": "prices of all shops",
    "type": "csv",
    "link": "https://example.com/prices.csv",
    "path": "prices.csv",
    "abstract": "12 articles, 3 shops",
    "content": "article;North;Harbour;Station\nbread;2.10;1.95;2.30",
}


def prompt_problems(library: PromptLibrary, prompt: Prompt) -> list[Problem]:
    """What is wrong with a text, with line and column: names nobody fills, Jinja2 that cannot be read.

    Also what the shipped text uses and this one does not: then an agent is not told of it.
    """
    return list(_problems(prompt, library.shipped_group(prompt.key)))


def _problems(prompt: Prompt, group: Sequence[Prompt]) -> Iterator[Problem]:
    file = f"{prompt.key}.{prompt.language}{JINJA if prompt.jinja else PLAIN}"
    try:
        used = variables(prompt)
    except TemplateError as error:
        line = int(error.facts.get("line", 0))
        yield Problem(severity="error", message=error.message, file=file, line=line, column=min(line, 1))
        return
    known = known_variables(prompt, group)
    for name, (line, column) in sorted(used.items(), key=lambda item: item[1]):
        if name in known:
            continue
        if prompt.jinja:
            message = f"Nothing fills {{{{ {name} }}}}: rendering fails, unless it is asked whether it is defined."
        else:
            message = f"Nothing fills {{{{{name}}}}}: it will be empty."
        yield Problem(severity="warning", message=message, file=file, line=line, column=column)
    if prompt.shipped:
        return
    original = next((one for one in group if one.key == prompt.key and one.language == prompt.language), None)
    original = original or next((one for one in group if one.key == prompt.key), None)
    for name, (line, _column) in (variables(original) if original is not None else {}).items():
        if name not in used:
            message = f"The shipped text uses {{{{{name}}}}} (line {line}), this one does not."
            yield Problem(severity="warning", message=message, file=file)


def known_variables(prompt: Prompt, group: Iterable[Prompt]) -> frozenset[str]:
    """The names that are filled in a prompt: those of all agents, or of the templates of one tool."""
    if not prompt.jinja:
        return VARIABLES
    return frozenset(name for one in group if one.jinja for name in variables(one))


def variables(prompt: Prompt) -> dict[str, tuple[int, int]]:
    """The names a text takes from outside, with line and column of their first use; raises TemplateError."""
    found: dict[str, tuple[int, int]] = {}
    if not prompt.jinja:
        for name, start in slots(prompt.text):
            before = prompt.text[:start]
            found.setdefault(name, (before.count("\n") + 1, start - before.rfind("\n")))
        return found
    from jinja2 import nodes
    from jinja2.meta import find_undeclared_variables

    from engine.flow.sandbox import Sandbox, start_clock

    start_clock()
    sandbox = Sandbox()
    try:
        tree = sandbox.parse(prompt.text)
        wanted = find_undeclared_variables(tree) - sandbox.globals.keys()
    except Exception as error:  # whatever a template can raise
        raise template_error(prompt, error) from error
    lines = prompt.text.split("\n")
    for node in tree.find_all(nodes.Name):
        if node.name in wanted:
            place = re.search(rf"\b{re.escape(node.name)}\b", lines[node.lineno - 1])
            found.setdefault(node.name, (node.lineno, place.start() + 1 if place else 1))
    return found


def sample_values(prompt: Prompt, names: Iterable[str]) -> dict[str, object]:
    """Invented values for these names of a prompt: texts, and lists of files for templates."""
    values = dict(_SAMPLES)
    values["date"] = date_text(date(2026, 3, 3), prompt.language)
    if prompt.jinja:
        values["files"] = values["key_files"] = [dict(_SAMPLE_FILE)]
    return {name: values.get(name, "") for name in names}
