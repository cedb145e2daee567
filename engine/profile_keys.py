"""The keys of a profile file: how each is checked, and the field of ModelProfile it fills."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from engine.plugins import entry_points
from engine.profile import EMBEDDED_URL, Provider

ENCODINGS = ("cl100k_base", "o200k_base", "o200k_harmony", "p50k_base", "p50k_edit", "r50k_base")
"""The vocabularies that come with the workbench, as `tokenEncoding` names them."""

PROTECTED_PARAMETERS = frozenset({"model", "messages", "system", "stream", "tools", "tool_choice"})
"""Parameters of a request that `extParams` cannot set."""

HEADER_PREFIX = "header."

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LARGEST_INTEGER = 2**31 - 1


class Fault(ValueError):
    """A value that is not what its key expects; the text says what is expected, never the value."""


class Holder(StrEnum):
    """The object whose field a key fills."""

    PROFILE = "profile"
    OPTIONS = "options"
    PRICES = "prices"


@dataclass(frozen=True, slots=True)
class Key:
    """One key of profile files."""

    name: str
    holder: Holder
    field: str
    parse: Callable[[str], object]
    """Turns stripped text into the value; raises Fault."""
    secret: bool = False
    """The value is never shown."""
    expands: bool = False
    """Placeholders in the value are replaced."""
    inherited: bool = True
    """A missing key is taken from `default.properties`."""
    blank_is_missing: bool = False
    """A blank value means the same as no such line."""
    choices: tuple[str, ...] = ()
    """The values there are, where they are few."""


def _fail(expected: str) -> NoReturn:
    raise Fault(expected)


def _integer(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # The length first: a text of thousands of digits is not worth converting.
        if not _INTEGER.fullmatch(text) or len(text) > 12 or not least <= int(text) <= _LARGEST_INTEGER:
            _fail(f"a whole number from {least} to {_LARGEST_INTEGER}")
        return int(text)

    return parse


def _number(least: float, most: float, *, above: bool = False) -> Callable[[str], float]:
    expected = f"a number {'above' if above else 'from'} {least:g} to {most:g}, with a decimal point"

    def parse(text: str) -> float:
        if not _NUMBER.fullmatch(text):
            _fail(expected)
        value = float(text)
        if not least <= value <= most or (above and value == least):
            _fail(expected)
        return value

    return parse


def _price(text: str) -> Decimal:
    """Currency units per token, exact, from currency units per million tokens."""
    expected = "a price per 1,000,000 tokens from 0 to 1000000, with a decimal point and at most 20 digits"
    if not _NUMBER.fullmatch(text) or len(text) > 40:
        _fail(expected)
    value = Decimal(text)
    _, digits, exponent = value.as_tuple()
    if not 0 <= value <= 1_000_000 or len(digits) > 20 or not isinstance(exponent, int) or exponent < -20:
        _fail(expected)
    return value.scaleb(-6)


def _choice(*values: str, aliases: Mapping[str, str] | None = None) -> Callable[[str], str]:
    known = {value.lower(): value for value in values} | dict(aliases or {})

    def parse(text: str) -> str:
        if text.lower() not in known:
            close = difflib.get_close_matches(text.lower(), known, n=1, cutoff=0.55)
            hint = f" (did you mean {known[close[0]]}?)" if close else ""
            _fail(f"one of {', '.join(values)}{hint}")
        return known[text.lower()]

    return parse


def _provider(text: str) -> str:
    """A dialect that is built in, else that of a plug-in of this very name."""
    known = text.upper() in Provider.__members__.values()
    return text if not known and text in entry_points("clients") else _choice(*Provider)(text)


def _boolean(text: str) -> bool:
    if text.lower() not in TRUTH:
        _fail("true or false")
    return text.lower() == "true"


def _text(text: str) -> str:
    return text


def _optional_choice(*values: str) -> Callable[[str], str | None]:
    parse = _choice(*values)
    return lambda text: parse(text) if text else None


def check_plain(text: str) -> str:
    """Check a key or a header value: printable ASCII, nothing that could start a new header line."""
    if not text.isascii() or any(ord(character) < 32 or ord(character) == 127 for character in text):
        _fail("printable ASCII characters on one line")
    return text


def _secret(text: str) -> str:
    if " " in check_plain(text):
        _fail("a key without blanks")
    return text


def check_url(text: str) -> str:
    """Check an http(s) address without user, password, query and fragment; `embedded` is valid, too."""
    if text.lower() == EMBEDDED_URL:
        return EMBEDDED_URL
    expected = "an address http://… or https://…, or `embedded`"
    if " " in check_plain(text):
        _fail(f"{expected}, without blanks")
    try:
        parts = urlsplit(text)
        valid = parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # port or IPv6 address
        valid = False
    if not valid:
        _fail(expected)
    if parts.username is not None or parts.password is not None:
        _fail(f"{expected}, without user and password (use apiKey or header.*)")
    if "?" in text or "#" in text:
        _fail(f"{expected}, without ? and #")
    return text


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _urls(text: str) -> tuple[tuple[str, int], ...]:
    endpoints = []
    for item in _items(text):
        url, bar, weight = item.rpartition("|")
        if bar:
            endpoints.append((check_url(url.strip()), _integer(1)(weight.strip())))
        else:
            endpoints.append((check_url(item), 1))
    return tuple(endpoints)


def _names(text: str) -> tuple[str, ...]:
    return tuple(_items(text))


def _interval(text: str) -> tuple[int, int]:
    first, _, send = text.partition(",")
    try:
        return _integer(1)(first.strip()), _integer(1)(send.strip())
    except Fault:
        _fail("two whole numbers above 0, as in 1,3")


def _interface_url(text: str) -> str:
    if " " in check_plain(text) or "://" in text:
        _fail("a path such as /chat/completions")
    return text


def _file(text: str) -> str:
    path = Path(text).expanduser() if text else Path("/")
    if not path.is_absolute() or "\0" in text:
        _fail("the whole path of a file")
    return str(path) if text else ""


def _encoding(text: str) -> str:
    return "" if text.lower() in ("", "none") else _choice(*ENCODINGS)(text)


def _json_object(text: str) -> dict[str, object]:
    import msgspec

    try:
        return msgspec.json.decode(text or "{}", type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        _fail('a JSON object, as in {"top_k": 40}')


def header_name(key: str) -> str:
    """The header a key `header.<Name>` stands for; raises Fault."""
    name = key.removeprefix(HEADER_PREFIX)
    if not _HEADER_NAME.fullmatch(name):
        _fail("a header name after `header.` in the key")
    return name


_tokenizers = {"jtokkit": "jTokkit", "llamaserver": "llamaServer", "fallback": "fallback"}
"""Names of tokenizers by their lower case."""


def tokenizer_names() -> list[str]:
    """The names `tokenizer` may have."""
    return list(_tokenizers.values())


def add_tokenizer_name(name: str) -> None:
    """Allow a name for `tokenizer`; raises ValueError for one that is taken or blank."""
    if not name.strip() or name.lower() in (*_tokenizers, "tiktoken"):
        raise ValueError(f"a tokenizer cannot be called {name!r}")
    _tokenizers[name.lower()] = name


def _tokenizer(text: str) -> str:
    if text.lower() not in (*_tokenizers, "tiktoken") and text in entry_points("tokenizers"):
        return text
    return _choice(*tokenizer_names(), aliases={"tiktoken": "jTokkit"})(text)


_SECONDS = _number(0, 86_400)
_POSITIVE_SECONDS = _number(0, 86_400, above=True)


TRUTH = ("true", "false")


def _keys() -> Iterable[Key]:
    profile, options, prices = Holder.PROFILE, Holder.OPTIONS, Holder.PRICES
    yield Key("category", profile, "category", _text, blank_is_missing=True)
    dialects = tuple(Provider)
    yield Key("modelProvider", profile, "provider", _provider, inherited=False, blank_is_missing=True, choices=dialects)
    yield Key("modelName", profile, "model", _text, inherited=False)
    yield Key("url", profile, "url", check_url, expands=True, inherited=False, blank_is_missing=True)
    yield Key("apiKey", profile, "api_key", _secret, secret=True, expands=True, inherited=False)
    yield Key("maxTokens", profile, "max_tokens", _integer(1))
    yield Key("maxContextLength", profile, "max_context", _integer(0))
    yield Key("temperature", profile, "temperature", _number(0, 2))
    yield Key("topP", profile, "top_p", _number(0, 1, above=True))
    yield Key("prompts", profile, "prompt_strategy", _text)
    yield Key("tokenizer", profile, "tokenizer", _tokenizer, blank_is_missing=True)
    yield Key("tokenEncoding", profile, "encoding", _encoding, choices=ENCODINGS)
    efforts, details = ("none", "minimal", "low", "medium", "high", "xhigh"), ("auto", "concise", "detailed")
    yield Key("reasoningEffort", profile, "reasoning_effort", _optional_choice(*efforts), choices=efforts)
    yield Key("reasoningSummaryDetails", profile, "reasoning_summary", _optional_choice(*details), choices=details)
    yield Key("cost1MInTokens", prices, "input", _price, inherited=False)
    yield Key("cost1MCachedInTokens", prices, "cached_input", _price, inherited=False)
    yield Key("cost1MOutTokens", prices, "output", _price, inherited=False)
    yield Key("cost1MReasoningOutTokens", prices, "reasoning", _price, inherited=False)
    yield Key("interfaceUrl", options, "interface_url", _interface_url, inherited=False)
    yield Key("urls", options, "urls", _urls, expands=True, inherited=False)

    def option(
        name: str, parse: Callable[[str], object], *, blank_is_missing: bool = False, choices: tuple[str, ...] = ()
    ) -> Key:
        field = re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name)
        given = TRUTH if parse is _boolean else choices
        return Key(name, options, field, parse, blank_is_missing=blank_is_missing, choices=given)

    def choice(name: str, *values: str) -> Key:
        return option(name, _choice(*values), blank_is_missing=True, choices=values)

    yield option("apiVersion", check_plain, blank_is_missing=True)
    yield choice("authScheme", "auto", "bearer", "x-api-key", "api-key", "none")
    yield Key("caFile", options, "ca_file", _file, inherited=False)
    yield Key("keyOverHttp", options, "key_over_http", _boolean, inherited=False, choices=TRUTH)
    yield option("maxInputTokens", _integer(0))
    yield choice("functionCallType", "function_call", "struct_parse", "none")
    yield option("parallelToolCalls", _boolean)
    yield option("extParams", _json_object)
    yield choice("systemRole", "system", "developer")
    yield choice("maxTokensParam", "auto", "max_tokens", "max_completion_tokens", "both")
    yield choice("omitSampling", "auto", "true", "false")
    yield option("streamUsage", _boolean)
    yield choice("thinkingMode", "off", "disabled", "budget", "adaptive")
    yield option("thinkingBudget", _integer(1024))
    yield from (option(name, _boolean) for name in ("supportsImages", "supportsTools", "supportsStreaming"))
    yield from (option(name, _integer(0)) for name in ("imageBaseTokens", "imageTileTokens"))
    yield from (option(name, _integer(1)) for name in ("imageMaxEdge", "imageMaxTokens"))
    yield option("tokenScale", _number(0, 100, above=True))
    yield from (option(name, _POSITIVE_SECONDS) for name in ("connectTimeout", "firstTokenTimeout", "idleTimeout"))
    yield option("totalTimeout", _SECONDS)
    yield option("messageInterval", _interval)
    yield choice("thinkTags", "auto", "on", "prefilled", "off")
    yield option("maxRetries", _integer(0))
    yield from (option(name, _SECONDS) for name in ("retryBaseDelay", "retryMaxDelay"))
    yield choice("lbStrategy", "round_robin", "least_in_flight", "random")
    yield from (option(name, _integer(0)) for name in ("maxConcurrent", "requestsPerMinute"))
    yield option("fallbackProfiles", _names)
    yield choice("sensitiveScope", "off", "tool_results", "all")
    yield choice("sensitiveStyle", "partial", "stars")
    yield option("sensitiveAllowEmailDomains", _names)


KEYS: Mapping[str, Key] = {key.name: key for key in _keys()}
"""Every key of profile files but `header.<Name>`, in the order of the documentation."""


def key_named(name: str) -> Key | None:
    """The key of this name; `header.<Name>` are keys, too."""
    if name.startswith(HEADER_PREFIX):
        return Key(name, Holder.OPTIONS, "headers", check_plain, secret=True, expands=True, inherited=False)
    return KEYS.get(name)


def closest_key(name: str) -> str:
    """The known key that looks most like this one; empty when none does."""
    by_lower = {key.lower(): key for key in KEYS}
    close = difflib.get_close_matches(name.lower().replace("_", ""), by_lower, n=1)
    return by_lower[close[0]] if close else ""


def shown(key: Key, text: str) -> str:
    """A value for a message: quoted, shortened, and without anything that may be secret."""
    if key.secret or (key.expands and ("@" in text or "?" in text)):
        return "a value that is not shown here"
    if not text:
        return "nothing"
    text = re.sub(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{8,}", "sk-***", text)
    return f'"{text if len(text) <= 60 else text[:59] + "…"}"'
