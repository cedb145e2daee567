"""Tools by name: those every installation has, and those of plug-ins (docs/plugins.md)."""

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Union, get_args, get_origin, get_type_hints

from engine.conversation import ToolDefinition
from engine.flow.granted_tools import CLOCK, HTTP_GET, READ_FILE
from engine.flow.sample_tools import CALCULATOR
from engine.flow.tools import Tool
from engine.plugins import CALL_SECONDS, Plugin, Plugins

SAMPLE_TOOLS: Mapping[str, Tool] = types.MappingProxyType(
    {tool.name: tool for tool in (CALCULATOR, CLOCK, READ_FILE, HTTP_GET)}
)
"""The tools every installation has, by name."""

_TYPES: Mapping[object, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}


def tool_names(plugins: Plugins) -> list[str]:
    """The tools a flow may have; imports nothing."""
    return sorted({*SAMPLE_TOOLS, *plugins.names("tools")})


def has_tool(name: str, plugins: Plugins) -> bool:
    """Whether there is a tool of this name; imports nothing."""
    return name in SAMPLE_TOOLS or plugins.find("tools", name) is not None


def find_tool(name: str, plugins: Plugins) -> Tool:
    """A tool by name, a plug-in only when none of our own has it; raises PluginError.

    What a plug-in does is not known: it counts as one with side effects, unless it is a Tool that says it has none.
    """
    if name in SAMPLE_TOOLS:
        return SAMPLE_TOOLS[name]
    plugin = plugins.get("tools", name)
    if plugin.source is not None:
        return _of_folder(plugin, name)
    found = plugin.load()
    if isinstance(found, Tool):
        return found
    if not callable(found):
        raise plugin.error("it is neither a Tool nor a function")
    try:
        return function_tool(found, name)
    except (TypeError, ValueError, NameError) as error:
        raise plugin.error(f"its arguments cannot be read ({error})") from error


def function_tool(function: Callable[..., object], name: str = "", *, side_effects: bool = True) -> Tool:
    """Make a tool of a function: its docstring says what it does, its annotations say what it takes."""
    hints = get_type_hints(function)
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    schema = {
        "type": "object",
        "properties": {parameter.name: _type_schema(hints.get(parameter.name)) for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.default is parameter.empty],
        "additionalProperties": False,
    }
    words = inspect.cleandoc(function.__doc__ or "").split("\n\n")[0]
    definition = ToolDefinition(name=name or function.__name__, description=words, parameters=schema)
    return Tool(definition=definition, function=function, side_effects=side_effects)


def _of_folder(plugin: Plugin, name: str) -> Tool:
    source = plugin.source
    assert source is not None  # noqa: S101 - the caller looked

    async def call(**arguments: object) -> object:
        return await plugin.call(arguments)

    definition = ToolDefinition(name=name, description=source.help, parameters=source.parameters)
    return Tool(definition=definition, function=call, timeout=CALL_SECONDS + 10, side_effects=True)


def _type_schema(hint: object) -> dict[str, object]:
    if get_origin(hint) in (Union, types.UnionType):
        return {"anyOf": [{"type": "null"} if one is type(None) else _type_schema(one) for one in get_args(hint)]}
    base = _TYPES.get(get_origin(hint) or hint)
    if base is None:
        return {}
    if base == "array" and get_args(hint):
        return {"type": base, "items": _type_schema(get_args(hint)[0])}
    return {"type": base}
