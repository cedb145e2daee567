"""Says in plain words why an expression or template cannot be read or evaluated, whatever Jinja2 and Python call it."""

import re
from collections.abc import Callable, Mapping

_TYPES: Mapping[str, str] = {
    "str": "a text",
    "string": "a text",
    "int": "a number",
    "float": "a number",
    "complex": "a number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "generator": "a list",
    "dict": "an object",
    "NoneType": "nothing",
    "None": "nothing",
    "method": "a function",
    "builtin_function_or_method": "a function",
}
_TOKENS: Mapping[str, str] = {
    "end of template": "the end",
    "begin of print statement": '"{{"',
    "end of print statement": '"}}"',
    "begin of statement block": '"{%"',
    "end of statement block": '"%}"',
    "name": "a name",
    "integer": "a number",
    "float": "a number",
    "string": "a text",
}
_CONVERT = "; use the filter int or float"
_KIND = r"'?([\w.]+)'?(?: object)?'?"

Words = Callable[[re.Match[str]], str]


def reason_of(error: Exception) -> str:
    """Why it failed, as the end of a sentence without its full stop."""
    text = (getattr(error, "message", None) or str(error) or type(error).__name__).rstrip(".")
    for pattern, words in _WORDS:
        if found := pattern.fullmatch(text):
            return words(found)
    return text


def _kind(name: str) -> str:
    return _TYPES.get(name) or f"a {name.rpartition('.')[2]}"


def _token(text: str) -> str:
    return _TOKENS.get(text) or f'"{text}"'


def _bad_sign(found: re.Match[str]) -> str:
    quote = found[1].strip("\"'") or found[1][1:-1]
    return f"the text that begins with {quote} does not end" if quote in "\"'" else f'"{quote}" has no meaning there'


def _bad_tag(found: re.Match[str]) -> str:
    if found[2]:
        return f'"{found[1]}" stands where the block "{found[2]}" has to end'
    return f'"{found[1]}" ends no block' if found[1].startswith("end") else f'there is no tag "{found[1]}"'


def _operated(found: re.Match[str]) -> str:
    left, right = _kind(found[2]), _kind(found[3])
    return f'"{found[1]}" does not work with {left} and {right}{_conversion(left, right)}'


def _compared(found: re.Match[str]) -> str:
    left, right = _kind(found[2]), _kind(found[3])
    return f'"{found[1]}" cannot compare {left} with {right}{_conversion(left, right)}'


def _concatenated(found: re.Match[str]) -> str:
    left, right = _kind(found[1]), _kind(found[2])
    hint = f"{_CONVERT}, or join texts with ~" if {left, right} == {"a text", "a number"} else ""
    return f'"+" does not work with {left} and {right}{hint}'


def _conversion(*kinds: str) -> str:
    return _CONVERT if set(kinds) == {"a text", "a number"} else ""


def _no_member(found: re.Match[str]) -> str:
    what = "entry" if found[2].lstrip("-").isdigit() else "member"
    return f'{_kind(found[1])} has no {what} "{found[2]}"'


_UNREADABLE: Mapping[str, Words] = {
    r"unexpected char (.*) at \d+": _bad_sign,
    r"Encountered unknown tag '(\w+)'(?:.*needs to be closed is '(\w+)')?.*": _bad_tag,
    r"Unexpected end of template\b.*needs to be closed is '(\w+)'": lambda found: (
        f'the block "{found[1]}" does not end'
    ),
    r"unexpected end of template, expected '(.*)'": lambda found: f"it ends where {_token(found[1])} should stand",
    r"[Uu]nexpected end of template.*|unexpected 'end of .*'": lambda _: "it ends too early",
    r"Expected an expression, got '(.*)'": lambda found: f"a value is missing before {_token(found[1])}",
    r"expected token '(.*)', got '(.*)'": lambda found: f"{_token(found[2])} stands where {_token(found[1])} should",
    r"expected name or number": lambda _: 'a name is missing after "."',
    r"unexpected '(.*)'(?: after the expression)?": lambda found: f"{_token(found[1])} is not expected there",
    r"there is no (filter|test) '(.*)'": lambda found: f'there is no {found[1]} "{found[2]}"',
    r"no loader for this environment specified": lambda _: "a template cannot read another one",
}
_FAILED: Mapping[str, Words] = {
    r".*\b(?:division|modulo)\b.* by zero|.*\bby zero|.* cannot be raised to a negative power": (
        lambda _: "it divides by zero"
    ),
    r"'(\w+)' is undefined": lambda found: f'there is no key "{found[1]}"',
    rf"{_KIND} has no (?:attribute|element) '?(.*?)'?": _no_member,
    r"No \w+ item, sequence was empty|.*\bempty sequence|.*\biterable argument is empty": lambda _: "the list is empty",
    r"unsupported operand type\(s\) for (\S+?)(?: or .*)?: '(\w+)' and '(\w+)'": _operated,
    r'can only concatenate (\w+) \(not "(\w+)"\) to \w+': _concatenated,
    r"can't multiply sequence by non-int of type '(\w+)'": lambda found: f'"*" cannot repeat by {_kind(found[1])}',
    r"'(\S+)' not supported between instances of '(\w+)' and '(\w+)'": _compared,
    r"bad operand type for (?:unary )?(\S+?)(?:\(\))?: '(\w+)'": (
        lambda found: f'"{found[1]}" does not work with {_kind(found[2])}'
    ),
    r"'in <string>' requires string as left operand, not (\w+)": (
        lambda found: f'"in" cannot look for {_kind(found[1])} in a text'
    ),
    r"access to attribute '(.*)' of '(\w+)' object is unsafe": (
        lambda found: f'"{found[1]}" of {_kind(found[2])} cannot be used'
    ),
    r"Range too big\..*\((\d+)\)": lambda found: f"a range has at most {int(found[1]):,} numbers",
    rf"{_KIND} is not callable": lambda found: f"{_kind(found[1])} cannot be called",
    r".* is not safely callable": lambda _: "it calls what cannot be called",
    rf"argument of type '(\w+)' is not .*|{_KIND} is not (?:iterable|a sequence|reversible)": (
        lambda found: f"{_kind(found[1] or found[2])} is no list"
    ),
    r"argument must be iterable|Can't get the .* of non-iterable.*": lambda _: "it needs a list",
    rf"{_KIND} cannot be interpreted as an integer": (
        lambda found: f"found {_kind(found[1])} where a whole number should be"
    ),
    r"object of type '(\w+)' has no len\(\)": lambda found: f"{_kind(found[1])} has no length",
    r"not enough arguments for format string": lambda _: "the format has more places than there are values",
    r"not all arguments converted during string formatting": lambda _: "the format has fewer places than values",
    r"(%\S+) format: .* required, not (\w+)": (
        lambda found: f"the format {found[1]} needs a number, found {_kind(found[2])}"
    ),
    r"(?:[\w<>]+\.)*_?(?:do_)?(\w+)\(\) (?:takes|expected|got|missing) .*": (
        lambda found: f'"{found[1]}" is given too few, too many or unknown arguments'
    ),
    r"(?:[\w<>]+\.)*(\w+) expected .* arguments?, got \d+": (
        lambda found: f'"{found[1]}" is given too few, too many or unknown arguments'
    ),
    r"maximum recursion depth exceeded.*|too many nested .*": lambda _: "it is nested too deeply",
}
_WORDS = tuple((re.compile(pattern, re.DOTALL), words) for pattern, words in (*_UNREADABLE.items(), *_FAILED.items()))
