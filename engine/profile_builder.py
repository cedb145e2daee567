"""Turns the keys of a profile file, of a flow's inline profile or of overrides into a checked ModelProfile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import Any

from engine.api_keys import SecretLookup, expand, has_placeholder, placeholder_names, variable_name
from engine.errors import Problem, ProfileInvalid
from engine.profile import ModelProfile, Overrides, ProfileOptions, Provider
from engine.profile_file import Entry, PropertiesFile
from engine.profile_keys import (
    HEADER_PREFIX,
    KEYS,
    PROTECTED_PARAMETERS,
    Fault,
    Key,
    closest_key,
    header_name,
    key_named,
    shown,
)
from engine.redaction import SECRETS
from engine.statistics import Prices

CALL_ONLY = frozenset({"stop", "responseFormat", "timeout"})
"""Overrides that belong to the request, not to the profile."""

TOKENIZER_STRATEGY = "tokenizer.strategy"
"""The old global key for the tokenizer of profiles that name none."""

_REQUIRED = ("modelProvider", "maxTokens", "temperature", "topP")
_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    Provider.ANTHROPIC: {"api_version": "2023-06-01", "token_scale": 1.25},
    Provider.AZURE: {"api_version": "2024-10-21"},
    Provider.OPENAI_RESPONSES: {"system_role": "developer"},
}
"""What a provider has instead of the usual default of an option."""
_NO_URL_NEEDED = (Provider.OPENROUTER, Provider.SCRIPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The outcome of reading one profile."""

    profile: ModelProfile | None
    """None when there is an error. Its category is empty when the file names none."""
    problems: tuple[Problem, ...]
    missing: tuple[Problem, ...] = ()
    """One warning per placeholder that has no value here; then the profile cannot be used yet."""


@dataclass(slots=True)
class _Values:
    """The parsed values by the object they belong to."""

    profile: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    prices: dict[str, Any] = field(default_factory=dict)

    def put(self, key: Key, value: object) -> None:
        if key.field == "headers":
            self.options.setdefault("headers", {})[header_name(key.name)] = value
        else:
            getattr(self, key.holder)[key.field] = value


def build_profile(
    name: str,
    file: PropertiesFile,
    *,
    environ: Mapping[str, str],
    secrets: SecretLookup,
    defaults: PropertiesFile | None = None,
    tokenizer: str = "",
) -> Built:
    """Check every key and list all faults together.

    A key that `file` does not have is taken from `defaults` where that is safe; `tokenizer` is the one for profiles
    that name none.
    """
    return _Builder(file, environ, secrets, defaults).build(name, tokenizer)


def inline_profile(name: str, values: Mapping[str, object]) -> ModelProfile:
    """Make a profile from keys as written in files with JSON values; raises ProfileInvalid with all faults."""
    problems: list[Problem] = []
    entries: dict[str, Entry] = {}
    for key, value in values.items():
        try:
            entries[key] = Entry(_as_text(value))
        except Fault as fault:
            problems.append(Problem(severity="error", message=f"{key}: expected {fault}.", path=key))
    file = PropertiesFile(file="", entries=entries, problems=tuple(problems))
    built = build_profile(name, file, environ={}, secrets=lambda _: None)
    faults = [*(problem for problem in built.problems if problem.severity == "error"), *built.missing]
    if built.profile is None or faults:
        raise invalid(f"The profile of {name}", faults)
    return built.profile if built.profile.category else replace(built.profile, category=name)


def apply_overrides(profile: ModelProfile, overrides: Overrides) -> ModelProfile:
    """Change a profile for one call; keys are those of profile files, `extParams` are merged, objects recursively.

    Raises ProfileInvalid with all faults. Another address loses key and headers, another model loses prices that are
    not 0, unless the overrides bring their own: neither belongs to them.
    """
    values, problems = _Values(), []
    for name, value in overrides.items():
        if name in CALL_ONLY:
            continue
        key = key_named(name)
        if key is None:
            problems.append(_unknown(name, Entry(""), "error"))
            continue
        try:
            text = _as_text(value).strip()
            if has_placeholder(text) and key.expands:
                raise Fault("a value without ${…}, which only profile files may hold")
            if text or not key.blank_is_missing:
                values.put(key, key.parse(text))
        except Fault as fault:
            problems.append(_fault(key, "" if value is None else str(value), Entry(""), fault))
    if problems:
        raise invalid(f"An override of profile {profile.name}", problems)
    changed = _changed(profile, values)
    problems = _joint_problems(changed, "")
    if problems:
        raise invalid(f"An override of profile {profile.name}", problems)
    return changed


def invalid(what: str, problems: Sequence[Problem], *, hint: str = "") -> ProfileInvalid:
    """The error for faults of a profile; its message shows the first one."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    first = f": {problems[0].message}" if problems else "."
    place = ":".join(str(part) for part in (problems[0].file, problems[0].line or "") if part) if problems else ""
    return ProfileInvalid(
        f"{what} cannot be used{f' ({place})' if place else ''}{first}{more}", problems=problems, hint=hint
    )


class _Builder:
    """Reads one file; collects values and problems."""

    def __init__(
        self,
        file: PropertiesFile,
        environ: Mapping[str, str],
        secrets: SecretLookup,
        defaults: PropertiesFile | None,
    ) -> None:
        self._file = file
        self._environ = environ
        self._secrets = secrets
        self._defaults = defaults or PropertiesFile(file="")
        self._own = {key: entry.value for key, entry in file.entries.items()}
        self._values = _Values()
        self._problems = list(file.problems)
        self._missing: list[Problem] = []
        self._present: set[str] = set()

    def build(self, name: str, tokenizer: str) -> Built:
        headers = (key for key in map(key_named, self._file.entries) if key and key.name.startswith(HEADER_PREFIX))
        for key in (*KEYS.values(), *headers):
            entry = self._entry(key)
            if entry is not None:
                self._present.add(key.name)
                self._read(key, entry)
        self._report_unknown()
        self._report_missing()
        profile = None
        if not any(problem.severity == "error" for problem in self._problems):
            profile = self._profile(name, tokenizer)
            joint = _joint_problems(profile, self._file.file, self._file.entries)
            self._problems += joint
            profile = None if joint else profile
            self._report_prompts()
        order = sorted(self._problems, key=lambda problem: (problem.file != self._file.file, problem.line))
        return Built(profile=profile, problems=tuple(order), missing=tuple(self._missing))

    def _entry(self, key: Key) -> Entry | None:
        for source in (self._file, self._defaults) if key.inherited else (self._file,):
            entry = source.entries.get(key.name)
            if entry is not None and (entry.value.strip() or not key.blank_is_missing):
                return entry
        return None

    def _read(self, key: Key, entry: Entry) -> None:
        text = entry.value.strip()
        if not key.expands:
            if placeholder_names(text):
                self._warn(key, entry, "placeholders are not replaced in this key")
            self._parse(key, entry, text, text)
            return
        if text and text != entry.value:
            self._warn(key, entry, "blanks around the value were ignored")
        expanded = expand(text, key=key.name, own=self._own, environ=self._environ, secrets=self._secrets)
        if expanded.malformed:
            self._problems.append(
                _fault(key, text, entry, Fault("placeholders of the form ${NAME} or ${NAME:default}"))
            )
        elif expanded.missing:
            for name in expanded.missing:
                message = f"{key.name}: {name} has no value: not in this file, the environment or the system's keyring."
                self._missing.append(_problem("warning", message, key.name, entry))
            if not key.secret and key.field != "urls":
                self._values.put(key, text)  # to be shown; such a profile is not used
        else:
            self._parse(key, entry, expanded.text.strip(), text)
            if key.field == "api_key":
                self._values.profile["key_variable"] = variable_name(text)

    def _parse(self, key: Key, entry: Entry, text: str, written: str) -> None:
        try:
            value = key.parse(text)
            if key.field == "ext_params":
                value = self._allowed_parameters(key, entry, value)
            self._values.put(key, value)
        except Fault as fault:
            self._problems.append(_fault(key, written, entry, fault))

    def _allowed_parameters(self, key: Key, entry: Entry, value: object) -> dict[str, object]:
        parameters: dict[str, object] = value if isinstance(value, dict) else {}
        for name in sorted(PROTECTED_PARAMETERS & parameters.keys()):
            self._warn(key, entry, f"the parameter {name} cannot be set here and was ignored")
        return {name: item for name, item in parameters.items() if name not in PROTECTED_PARAMETERS}

    def _warn(self, key: Key, entry: Entry, message: str) -> None:
        self._problems.append(_problem("warning", f"{key.name}: {message}.", key.name, entry))

    def _report_unknown(self) -> None:
        used = {name for text in self._own.values() for name in placeholder_names(text)}
        for name, entry in self._file.entries.items():
            if key_named(name) is None and name not in used and name != TOKENIZER_STRATEGY:
                self._problems.append(_unknown(name, entry, "warning"))

    def _report_missing(self) -> None:
        required = [key for key in _REQUIRED if key not in self._present]
        if not {"url", "urls"} & self._present and self._values.profile.get("provider") not in _NO_URL_NEEDED:
            required.append("url")
        for key in required:
            message = f"The required key {key} is missing."
            self._problems.append(Problem(severity="error", message=message, file=self._file.file, path=key))

    def _report_prompts(self) -> None:
        """Tell what the first request would fail with: a prompt format may also come with a package, later."""
        key = KEYS["prompts"]
        name = str(self._values.profile.get(key.field, ""))
        if self._values.profile["provider"] == Provider.OPENAI_TEXT:
            from engine.prompt_strategies import is_strategy, strategy_names

            if not is_strategy(name):
                entry = self._entry(key) or Entry("", 0, self._file.file)
                self._warn(key, entry, f"found {shown(key, name)}, expected one of {'; '.join(strategy_names())}")

    def _profile(self, name: str, tokenizer: str) -> ModelProfile:
        values = self._values
        values.options = {**_DEFAULTS.get(values.profile["provider"], {}), **values.options}
        if "url" not in values.profile and values.options.get("urls"):
            values.profile["url"] = values.options["urls"][0][0]
        SECRETS.add([values.profile.get("api_key", ""), *values.options.get("headers", {}).values()])
        defaults = {"category": "", "tokenizer": tokenizer}
        return ModelProfile(
            name=name,
            prices=Prices(**values.prices),
            options=ProfileOptions(**values.options),
            **(defaults | values.profile),
        )


def _changed(profile: ModelProfile, values: _Values) -> ModelProfile:
    options, prices = dict(values.options), dict(values.prices)
    elsewhere = values.profile.get("url", profile.url) != profile.url or "urls" in options
    headers = {} if elsewhere else dict(profile.options.headers)
    options["headers"] = headers | options.get("headers", {})
    if elsewhere:
        values.profile.setdefault("api_key", "")
    if "ext_params" in options:
        allowed = {name: value for name, value in options["ext_params"].items() if name not in PROTECTED_PARAMETERS}
        options["ext_params"] = _merged(profile.options.ext_params, allowed)
    kept = profile.prices
    if values.profile.get("model", profile.model) != profile.model and not _is_free(kept):
        kept = Prices()
    return replace(
        profile,
        prices=replace(kept, **prices),
        options=replace(profile.options, **options),
        **values.profile,
    )


def _is_free(prices: Prices) -> bool:
    known = (getattr(prices, item.name) for item in fields(prices) if item.name != "cached_input")
    return all(price == 0 for price in known) and not prices.cached_input


def _merged(base: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    result = dict(base)
    for name, value in changes.items():
        old = result.get(name)
        result[name] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def _joint_problems(profile: ModelProfile, file: str, entries: Mapping[str, Entry] | None = None) -> list[Problem]:
    """Faults that show only in several keys together."""
    found: dict[str, str] = {}
    if 0 < profile.max_context <= profile.max_tokens + 15:
        expected = f"more than maxTokens + 15 ({profile.max_tokens + 15}), or 0 for unknown"
        found["maxContextLength"] = f"maxContextLength: found {profile.max_context}, expected {expected}."
    if profile.provider == Provider.AZURE and not profile.model:
        found["modelName"] = "modelName: found nothing, expected the name of the Azure deployment."
    return [
        _problem("error", message, key, (entries or {}).get(key, Entry("", 0, file))) for key, message in found.items()
    ]


def _fault(key: Key, written: str, entry: Entry, fault: Fault) -> Problem:
    replaced = ", after its placeholders were replaced" if key.expands and placeholder_names(written) else ""
    return _problem("error", f"{key.name}: found {shown(key, written)}, expected {fault}{replaced}.", key.name, entry)


def _unknown(name: str, entry: Entry, severity: str) -> Problem:
    close = closest_key(name)
    hint = f" Did you mean {close}?" if close else ""
    return _problem(severity, f"Unknown key {name[:60]}.{hint}", name, entry)


def _problem(severity: str, message: str, key: str, entry: Entry) -> Problem:
    return Problem(severity=severity, message=message, file=entry.file, path=key, line=entry.line)


def _as_text(value: object) -> str:
    """A JSON value as a profile file would write it; raises Fault."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float | Decimal):
        return str(value)
    if isinstance(value, Mapping):
        import msgspec

        try:
            return msgspec.json.encode(value).decode()
        except (TypeError, ValueError, RecursionError):
            raise Fault("an object that JSON can write") from None
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return ",".join(_as_text(item) for item in value)
    raise Fault("a text, a number, true, false, a list or an object")
