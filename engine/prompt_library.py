"""The prompts of agents and tools: shipped texts by language, over them the user's own (docs/prompt-library.md)."""

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from engine import bundled
from engine.atomic_file import read_limited, write_atomically
from engine.errors import EngineError, StorageError, TemplateError
from engine.saved_versions import SavedVersion, SavedVersions

if TYPE_CHECKING:
    from jinja2 import Template

log = logging.getLogger(__name__)

PACKAGE, FOLDER = "resources", "prompts"
PLAIN, JINJA = ".md", ".md.j2"
SIZE_LIMIT = 1_000_000
FALLBACK = "en"
"""The language whose text is there for every key."""
MOST_VERSIONS = 20
"""Earlier texts kept of each prompt."""

VARIABLES = frozenset(
    {
        *("date", "current_time", "files", "key_files", "fileNameDesc", "output_dir", "query", "task", "taskHistory"),
        *("history", "history_dialogue", "tools", "ToolsDesc"),
        *("basePrompt", "sopPrompt", "executorSopPrompt", "sop", "sop_length"),
    }
)
"""The names prompts may use."""

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_LANGUAGE = re.compile(r"[A-Za-z]\w*(?:-\w+)*")
_SLOT = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_WEEKDAYS = {
    "en": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "zh": ("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日"),
}
_MONTHS: tuple[str, ...] = ("January", "February", "March", "April", "May", "June", "July", "August", "September")
_MONTHS += ("October", "November", "December")


class PromptError(EngineError):
    """A prompt that does not exist, or cannot be used; `facts` names key and language."""


class PromptChanged(PromptError):
    """Somebody else has changed the text meanwhile: nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One text of the library, as it was found."""

    key: str
    """`planner.system_prompt`, for instance."""
    language: str
    """The language or variant whose text it is: not always the one that was asked for."""
    text: str
    shipped: bool
    """Whether it is the text that came with the program."""
    jinja: bool = False

    @property
    def version(self) -> str:
        """A mark of the text: equal texts have equal marks."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    @property
    def variables(self) -> tuple[str, ...]:
        """The names it uses as `{{name}}`, each once."""
        return tuple(dict.fromkeys(name for name, _ in slots(self.text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptEntry:
    """A text of the library, as a list shows it."""

    key: str
    language: str
    shipped: bool
    """Whether such a text came with the program."""
    own: bool
    """Whether there is one of the user."""
    differs: bool = False
    """Whether the user's text is another one than the shipped one, or the only one."""
    fault: str = ""
    """Why the user's text cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFile:
    """A file that an agent has, as prompts name it."""

    name: str
    description: str = ""
    url: str = ""
    internal: bool = False
    """Only the planner is told of it."""


class PromptLibrary:
    """Finds prompts by key and language; `folder` holds the user's own texts (it need not exist)."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._earlier = None if folder is None else SavedVersions(folder / "earlier", MOST_VERSIONS, root=folder)
        self._compiled: dict[str, Template] = {}
        """Jinja2 templates, by the version of their text."""

    def keys(self) -> list[str]:
        """All keys, sorted."""
        return sorted({key for key, _ in [*self._shipped(), *self._own()]})

    def languages(self, key: str) -> list[str]:
        """The languages and variants a key has texts in, sorted."""
        return sorted({language for known, language in [*self._shipped(), *self._own()] if known == key})

    def entries(self) -> list[PromptEntry]:
        """All texts there are, sorted by key and language. Raises StorageError when the folder cannot be read."""
        own, shipped = self._own(), self._shipped()
        return [self._entry(key, language, own, shipped) for key, language in sorted({*own, *shipped})]

    def _entry(
        self, key: str, language: str, own: Mapping[tuple[str, str], Path], shipped: Mapping[tuple[str, str], str]
    ) -> PromptEntry:
        place = key, language
        differs, fault = place in own, ""
        if place in own and place in shipped:
            try:
                differs = self.find(key, language).text != self.shipped(key, language).text
            except StorageError as error:
                fault = error.message
        return PromptEntry(
            key=key, language=language, shipped=place in shipped, own=place in own, differs=differs, fault=fault
        )

    def find(self, key: str, language: str = FALLBACK) -> Prompt:
        """The text for a language: exactly that, else without its region, else `default`, else the built-in one.

        The user's own text wins over the shipped one. Raises PromptError and StorageError.
        """
        own, shipped = self._own(), self._shipped()
        for wanted in dict.fromkeys((language, language.partition("-")[0], "default", FALLBACK)):
            if (key, wanted) in own:
                path = own[key, wanted]
                text = _decoded(read_limited(path, SIZE_LIMIT), path)
                return Prompt(key=key, language=wanted, text=text, shipped=False, jinja=path.name.endswith(JINJA))
            if (key, wanted) in shipped:
                return self.shipped(key, wanted)
        raise PromptError(
            f'There is no prompt "{key[:100]}".',
            hint="`PromptLibrary.keys` lists all.",
            facts={"prompt": key[:100], "language": language[:40]},
        )

    def shipped_group(self, key: str) -> list[Prompt]:
        """The shipped texts of all keys that begin as this one: they are filled with the same values."""
        first = key.partition(".")[0]
        return [self.shipped(*place) for place in self._shipped() if place[0].partition(".")[0] == first]

    def shipped(self, key: str, language: str) -> Prompt:
        """The text that came with the program, for comparing; raises PromptError."""
        name = self._shipped().get((key, language))
        if name is None:
            raise PromptError(f'No text of "{key[:100]}" in "{language[:40]}" came with the program.')
        text = bundled.read_text(PACKAGE, FOLDER, name)
        return Prompt(key=key, language=language, text=text, shipped=True, jinja=name.endswith(JINJA))

    def save(self, key: str, language: str, text: str, *, replaces: str | None = None) -> Prompt:
        """Keep the user's own text, and the one before it; it holds from the next run on. Raises PromptError.

        With `replaces`, the version of the text that was edited, it raises PromptChanged when another one is there now.
        """
        folder = self._writable()
        self.check_name(key, language)
        path = folder / self._file_name(key, language)
        if replaces is not None and self.find(key, language).version != replaces:
            raise PromptChanged(
                f"The text of {key} in {language} was changed elsewhere.",
                hint="Nothing was saved.",
                facts={"prompt": key, "language": language},
            )
        data = text.encode("utf-8", "replace")
        if len(data) > SIZE_LIMIT:
            raise PromptError(f"The text of {key} has {len(data):,} bytes, expected at most {SIZE_LIMIT:,}.")
        self._keep(path)
        write_atomically(path, data)
        return self.find(key, language)

    @staticmethod
    def check_name(key: str, language: str) -> None:
        """Raise PromptError when a text cannot be called so."""
        if not _NAME.fullmatch(key) or not _LANGUAGE.fullmatch(language):
            raise PromptError(f'"{key[:60]}.{language[:40]}" is no name of a prompt and its language.')

    def reset(self, key: str, language: str) -> None:
        """Take back the user's own text; it stays among the earlier ones."""
        path = self._own().get((key, language))
        if path is not None:
            self._keep(path)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise StorageError(f"The file {path} cannot be removed: {error.strerror or error}.") from error

    def earlier(self, key: str, language: str) -> list[SavedVersion]:
        """Earlier texts of the user, in UTF-8, the last one first."""
        if self._folder is None or self._earlier is None:
            return []
        return self._earlier.of(self._folder / self._file_name(key, language))

    def _keep(self, path: Path) -> None:
        if self._earlier is not None:
            self._earlier.keep(path)

    def _file_name(self, key: str, language: str) -> str:
        """What the user's own text is called: as the shipped one."""
        suffix = JINJA if (self._shipped().get((key, FALLBACK)) or "").endswith(JINJA) else PLAIN
        return f"{key}.{language}{suffix}"

    def import_map(self, key: str, text: str) -> list[Prompt]:
        """Keep the texts of a JSON object language → text; raises PromptError for anything else."""
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PromptError(f"The texts of {key[:60]} are no JSON: {error}") from error
        if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
            raise PromptError(f"The texts of {key[:60]} are no JSON object of language and text.")
        return [self.save(key, language, value) for language, value in given.items()]

    def preview(self, prompt: Prompt, values: Mapping[str, object]) -> str:
        """The text with these values; what has none is empty. Raises TemplateError for Jinja2 that fails."""
        if prompt.jinja:
            return self.render(prompt, values)
        return "".join(text + str(values.get(name, "")) for text, name in _cut(prompt.text))

    def render(self, prompt: Prompt, values: Mapping[str, object]) -> str:
        """A Jinja2 template with its values, in the sandbox; raises TemplateError with its name and line."""
        from engine.flow.sandbox import start_clock

        template = self._template(prompt)
        start_clock()
        try:
            return template.render(dict(values))
        except Exception as error:  # whatever a template can raise
            raise template_error(prompt, error) from error

    def _template(self, prompt: Prompt) -> "Template":
        from engine.flow.sandbox import Sandbox, start_clock

        known = self._compiled.get(prompt.version)
        if known is None:
            start_clock()
            try:
                known = self._compiled[prompt.version] = Sandbox().from_string(prompt.text)
            except Exception as error:
                raise template_error(prompt, error) from error
        return known

    def _shipped(self) -> dict[tuple[str, str], str]:
        names = [item.name for item in bundled.entry(PACKAGE, FOLDER).iterdir()]
        return {place: name for name in names if (place := _place(name)) is not None}

    def _own(self) -> dict[tuple[str, str], Path]:
        if self._folder is None or not self._folder.is_dir():
            return {}
        try:
            return {place: path for path in self._folder.iterdir() if (place := _place(path.name)) and path.is_file()}
        except OSError as error:
            raise StorageError(
                f"The folder {self._folder} cannot be read: {error.strerror or error}.",
                facts={"path": str(self._folder)},
            ) from error

    def _writable(self) -> Path:
        if self._folder is None:
            raise PromptError("This library has no folder to write to.", hint="Give it one.")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"The folder {self._folder} cannot be made: {error.strerror or error}.") from error
        return self._folder


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSnapshot:
    """The prompts of one agent as they were when its run began, cut into texts and slots, with what stays the same."""

    prompts: Mapping[str, Prompt]
    """By key: what a record names with language and version."""
    values: Mapping[str, str]
    parts: Mapping[str, tuple[tuple[str, str], ...]]
    """By key: text, and the name of the slot behind it (empty at the end)."""

    @classmethod
    def take(
        cls, library: PromptLibrary, keys: Iterable[str], language: str, values: Mapping[str, str]
    ) -> "PromptSnapshot":
        """Read the prompts and keep the values; `{{sop}}` inside of `sopPrompt` is filled in here."""
        prompts = {key: library.find(key, language) for key in keys}
        held = dict(values)
        held.setdefault("date", date_text(date.today(), language))  # noqa: DTZ011 - the day of the person
        for name in ("sopPrompt", "executorSopPrompt"):
            if name in held:
                held[name] = fill(held[name], {"sop": held.get("sop", ""), "sop_length": held.get("sop_length", "")})
        if "history" in held:
            held.setdefault("history_dialogue", held["history"])
        return cls(prompts=prompts, values=held, parts={key: _cut(one.text) for key, one in prompts.items()})

    def render(self, key: str, files: Sequence[PromptFile] = (), *, internal: bool = False) -> str:
        """The prompt with the files there are now; what is inserted is never looked at again."""
        values = {**self.values, "files": file_lines(files, internal=internal)}
        out, missing = [], []
        for text, name in self.parts[key]:
            out.append(text)
            if name:
                if name not in values:
                    missing.append(name)
                out.append(values.get(name, ""))
        for name in dict.fromkeys(missing):
            log.warning("The prompt %s has no value for {{%s}}.", key, name)
        return "".join(out)


def slots(text: str) -> list[tuple[str, int]]:
    """The `{{name}}` in a plain text: name, and where it begins."""
    return [(found.group(1), found.start()) for found in _SLOT.finditer(text)]


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of their `{{name}}`, in one pass; what has none stays."""
    return _SLOT.sub(lambda found: values.get(found.group(1), found.group()), text)


def file_lines(files: Sequence[PromptFile], *, internal: bool = False) -> str:
    """One line for each file; internal ones only when asked for."""
    shown = [one for one in files if internal or not one.internal]
    return "\n".join(f"fileName:{one.name} fileDesc:{one.description} fileUrl:{one.url}" for one in shown)


def tool_lines(tools: Mapping[str, str]) -> str:
    """Name and description of each tool, by name, so that the same tools give the same prompt."""
    return "\n".join(f"{name}: {' '.join(tools[name].split())}" for name in sorted(tools))


def date_text(day: date, language: str) -> str:
    """A date with its weekday, as the language writes it."""
    if language.partition("-")[0] == "zh":
        return f"{day.year}年{day.month}月{day.day}日 {_WEEKDAYS['zh'][day.weekday()]}"
    return f"{_WEEKDAYS['en'][day.weekday()]}, {day.day} {_MONTHS[day.month - 1]} {day.year}"


def _cut(text: str) -> tuple[tuple[str, str], ...]:
    parts, begin = [], 0
    for found in _SLOT.finditer(text):
        parts.append((text[begin : found.start()], found.group(1)))
        begin = found.end()
    return (*parts, (text[begin:], ""))


def _place(name: str) -> tuple[str, str] | None:
    """Key and language of a file name; None when it is no prompt."""
    suffix = JINJA if name.endswith(JINJA) else PLAIN
    key, dot, language = name.removesuffix(suffix).rpartition(".")
    valid = name.endswith(suffix) and dot and _NAME.fullmatch(key) and _LANGUAGE.fullmatch(language)
    return (key, language) if valid else None


def _decoded(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StorageError(
            f"{path.name} is no UTF-8 text (byte {error.start}).",
            hint="Save it as UTF-8.",
            facts={"path": str(path)},
        ) from error


def template_error(prompt: Prompt, error: Exception) -> TemplateError:
    """What went wrong in a template, with its name and line."""
    line = getattr(error, "lineno", None)
    trace = error.__traceback__
    while line is None and trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    place = f"{prompt.key}.{prompt.language}" + (f", line {line}" if line else "")
    facts = {"prompt": prompt.key, **({"line": str(line)} if line else {})}
    return TemplateError(f"{place}: {error}", hint="Correct the template.", facts=facts)
