"""Profiles from the `llm` block of a JoyAgent-JDGenie configuration (`application.yml`), one for each of its models."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from engine.errors import ProfileInvalid
from engine.profile import Provider
from engine.profile_edit import with_property

NAMES = {
    "model": "modelName",
    "base_url": "url",
    "interface_url": "interfaceUrl",
    "apikey": "apiKey",
    "max_tokens": "maxTokens",
    "max_input_tokens": "maxInputTokens",
    "temperature": "temperature",
    "function_call_type": "functionCallType",
    "ext_params": "extParams",
    "api_version": "apiVersion",
}
"""Their name of a key → ours."""
READ_OTHERWISE = ("api_type",)
REQUIRED = {"maxTokens": "4096", "temperature": "0", "topP": "1"}
"""What a profile needs and theirs may lack."""
LARGEST = 1_000_000
"""Bytes of a configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedProfile:
    """A profile that could be written."""

    name: str
    text: bytes
    variable: str = ""
    """The environment variable that is to hold its key; empty when theirs has none, or the key is in the text."""
    left_out: tuple[str, ...] = ()
    """Keys that have no counterpart here."""


def import_llm_block(data: bytes, file: str, *, keys: bool = False) -> list[ImportedProfile]:
    """Read YAML or JSON with an `llm` block; with `keys` its keys go into the texts, else names of variables do.

    Raises ProfileInvalid that names the file, what was found and what is expected.
    """
    import yaml

    if len(data) > LARGEST:
        raise ProfileInvalid(f"{file}: found {len(data):,} bytes, expected {LARGEST:,} at most.")
    try:
        document = yaml.safe_load(data.decode("utf-8"))
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ProfileInvalid(f"{file}: found no YAML and no JSON: {' '.join(str(error).split())[:200]}") from error
    block = document.get("llm", document) if isinstance(document, dict) else None
    if not isinstance(block, dict) or not {"default", "settings"} & block.keys():
        raise ProfileInvalid(f"{file}: found no llm block, expected llm with default and settings.")
    entries = _settings(block.get("settings"), file)
    if isinstance(default := block.get("default"), dict):
        entries = {"default": default} | entries
    return [_profile(name, entry, file, keys) for name, entry in entries.items()]


def _settings(settings: object, file: str) -> dict[str, object]:
    """By name of the profile; a text is JSON, as it is kept there."""
    if isinstance(settings, str):
        try:
            settings = json.loads(settings or "{}")
        except ValueError as error:
            raise ProfileInvalid(f"{file}: llm.settings: found no JSON object: {error}.") from error
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise ProfileInvalid(f"{file}: llm.settings: found {type(settings).__name__}, expected an object.")
    return {str(name): entry for name, entry in settings.items()}


def _profile(name: str, entry: object, file: str, keys: bool) -> ImportedProfile:
    if not isinstance(entry, Mapping):
        raise ProfileInvalid(f"{file}: llm.settings.{name}: found {type(entry).__name__}, expected an object.")
    own = re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "imported"
    values = {NAMES[key]: _text(value) for key, value in entry.items() if key in NAMES}
    values = REQUIRED | {key: value for key, value in values.items() if value and not _is_blank(value)}
    variable = ""
    if "apiKey" in values and not keys:
        variable = f"{re.sub('[^A-Z0-9]+', '_', own.upper()).strip('_')}_KEY"
        values["apiKey"] = f"${{{variable}}}"
    text = with_property(f"# Imported from {file.rpartition('/')[2]}\n".encode(), "modelProvider", _provider(entry))
    for key, value in values.items():
        text = with_property(text, key, value)
    left_out = tuple(str(key) for key in entry if key not in NAMES and key not in READ_OTHERWISE)
    return ImportedProfile(name=own, text=text, variable=variable, left_out=left_out)


def _provider(entry: Mapping[str, object]) -> str:
    """By how it is reached; the name of a model counts only together with the path of Anthropic's messages."""
    if str(entry.get("api_type", "")).lower() == "azure":
        return Provider.AZURE
    path = str(entry.get("interface_url") or "").rstrip("/")
    if "claude" in str(entry.get("model", "")).lower() and path.endswith("/messages"):
        return Provider.ANTHROPIC
    return Provider.OPENAI_CHAT


def _is_blank(value: str) -> bool:
    """Whether it only stands for something that is to be filled in, `<input llm key here>` for instance."""
    return value.startswith("<") and value.endswith(">")


def _text(value: object) -> str:
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else json.dumps(value)
