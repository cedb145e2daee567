"""A request as it goes out, kept without its secrets, and as a command that sends it again (docs/runs.md)."""

import json
import pprint
import re
from collections.abc import Iterator
from textwrap import indent

import msgspec

from engine.redaction import SECRETS

LONGEST_ARGUMENT = 100_000
"""Bytes of a body that is an argument of curl; systems refuse much longer ones, so those go through a pipe."""
EDITABLE = 200_000
"""Characters of a body that is laid out in the Python program; longer ones are one text."""
WIDTH = 100
"""Characters of a line of the Python program, as far as its texts can be broken."""

FORMS = ("curl", "python")
"""What a request can be written as."""

_VARIABLE = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}")


class FormedRequest(msgspec.Struct, frozen=True):
    """One POST to a model server; `${NAME}` in address and headers stands for what must not be kept."""

    url: str
    headers: dict[str, str]
    body: dict[str, object]
    """The very members that are sent: encoded again they give the same bytes."""

    @property
    def data(self) -> bytes:
        """The body as it is sent."""
        return msgspec.json.encode(self.body)


def request_text(request: FormedRequest, form: str) -> str:
    """The request as one of FORMS; raises ValueError for another one."""
    if form not in FORMS:
        raise ValueError(f"found {form!r}, expected one of {', '.join(FORMS)}")
    return curl_command(request) if form == "curl" else python_program(request)


def curl_command(request: FormedRequest) -> str:
    """A command for POSIX shells that sends the same bytes and shows the answer as it streams."""
    data = SECRETS.without(request.data.decode())
    lines = [f"curl --no-buffer --globoff --request POST {_shell(request.url)}"]
    lines += [f"--header {_shell(f'{name}: {value}')}" for name, value in request.headers.items()]
    if len(data.encode()) <= LONGEST_ARGUMENT:
        return " \\\n  ".join([*lines, f"--data-raw {_quoted(data)}"]) + "\n"
    # printf is built into shells: what it is given has no limit.
    return f"printf %s {_quoted(data)} |\n" + " \\\n  ".join([*lines, "--data-binary @-"]) + "\n"


def python_program(request: FormedRequest) -> str:
    """A program for httpx that sends the same bytes and prints the answer as it streams."""
    headers = "".join(f"    {name!r}: {_python(value)},\n" for name, value in request.headers.items())
    content = _python_content(request)
    variables = any(_VARIABLE.search(text) for text in (request.url, *request.headers.values()))
    imports = ("import json\n" if "json.dumps" in content else "") + ("import os\n" if variables else "")
    return (
        f"{imports}import sys\n\nimport httpx\n\n"
        f"url = {_python(request.url)}\n"
        f"headers = {{\n{headers}}}\n"
        f"{content}\n"
        'with httpx.stream("POST", url, headers=headers, content=content, timeout=None) as answer:\n'
        "    for piece in answer.iter_bytes():\n"
        "        sys.stdout.buffer.write(piece)\n"
        "        sys.stdout.buffer.flush()\n"
        "    if answer.is_error:\n"
        '        sys.exit(f"\\nHTTP {answer.status_code}")\n'
    )


def _python_content(request: FormedRequest) -> str:
    """The body as data to edit; as text when it is long, or Python would spell its JSON in another way (1e-7 say)."""
    data = SECRETS.without(request.data.decode())
    body = json.loads(data) if len(data) <= EDITABLE else None
    if json.dumps(body, ensure_ascii=False, separators=(",", ":")) != data:
        return f"content = {data!r}.encode()\n"
    begin = "body = "
    shown = indent(pprint.pformat(body, width=WIDTH - len(begin), sort_dicts=False), " " * len(begin)).lstrip()
    return f'{begin}{shown}\ncontent = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()\n'


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Literal text and the name of the variable behind it, as often as there is one; the last name is empty."""
    last = 0
    for found in _VARIABLE.finditer(text):
        yield text[last : found.start()], found[1]
        last = found.end()
    if last < len(text) or not last:
        yield text[last:], ""


def _shell(text: str) -> str:
    """The text as one word of a shell command; only its variables are expanded."""
    return "".join(
        (_quoted(literal) if literal or not name else "") + (f'"${{{name}}}"' if name else "")
        for literal, name in _parts(text)
    )


def _quoted(text: str) -> str:
    """Between single quotes nothing has a meaning but the quote itself."""
    return "'" + text.replace("'", "'\\''") + "'"


def _python(text: str) -> str:
    """The text as an expression; its variables are read from the environment."""
    pieces = []
    for literal, name in _parts(text):
        pieces += [repr(literal)] if literal or not name else []
        pieces += [f"os.environ[{name!r}]"] if name else []
    return " + ".join(pieces)
