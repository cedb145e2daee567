"""Any value as JSON that a database can hold."""

from collections.abc import Callable

import msgspec

from engine.events import Event, event_json


def clean(text: str) -> str:
    """The text with half characters (lone surrogates) replaced by U+FFFD; halves that belong together are joined."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def json_text(value: object, odd: Callable[[object], object] = str) -> str:
    """JSON of an event or of plain values, whatever a context may hold; `odd` makes a text of what JSON has not."""
    try:
        data = event_json(value) if isinstance(value, Event) else msgspec.json.encode(value, enc_hook=odd)
    except (UnicodeEncodeError, TypeError):
        data = msgspec.json.encode(_plain(msgspec.to_builtins(value, enc_hook=odd, str_keys=True)))
    return data.decode()


def _plain(value: object) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
