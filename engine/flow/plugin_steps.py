"""Plug-ins as steps of a flow: functions change a context, merges make fewer of them, handlers read answers."""

from collections.abc import Callable, Mapping
from typing import cast

from engine.completion import Completion
from engine.errors import PluginError
from engine.flow.context import Context
from engine.flow.flow_spec import HandlerSpec
from engine.flow.handlers import DONE, Again, Handler, HandlerResult
from engine.plugins import Plugin

_HANDLER_FIELDS = ("key", "prefix", "schema", "headings", "separator")


async def call_function(plugin: Plugin, context: Context) -> None:
    """Give a function the values and take over the keys it returns; None as value removes a key."""
    _change(plugin, context, await plugin.call(_values(context)))


async def call_merge(plugin: Plugin, contexts: list[Context]) -> list[Context]:
    """Give a merge the values of all contexts; each one it returns is a dict of values, or the index of one to keep.

    The nth dict becomes the values of the nth context.
    """
    result = await plugin.call([_values(context) for context in contexts])
    items = result if isinstance(result, list | tuple) else [result]
    if not items or len(items) > len(contexts):
        raise plugin.error(f"it returned {len(items)} contexts, expected 1 to {len(contexts)}")
    return [_merged(plugin, contexts, index, item) for index, item in enumerate(items)]


def _merged(plugin: Plugin, contexts: list[Context], index: int, item: object) -> Context:
    if isinstance(item, int) and not isinstance(item, bool):
        if not 0 <= item < len(contexts):
            raise plugin.error(f"it returned the index {item}, expected 0 to {len(contexts) - 1}")
        return contexts[item]
    if not isinstance(item, Mapping):
        raise plugin.error(
            f"it returned a value of type {type(item).__name__}, expected a dict of keys and values, or an index"
        )
    merged = contexts[index].copy()
    merged.clear()
    _change(plugin, merged, item)
    return merged


def plugin_handler(plugin: Plugin, spec: HandlerSpec) -> Callable[[Context], Handler]:
    """Makes the handler for each attempt: of a class of handlers a new one, of a function one that calls it."""
    options = {name: value for name in _HANDLER_FIELDS if (value := getattr(spec, name)) not in (None, ())}
    options |= spec.extra
    if plugin.source is not None:
        return lambda _: FunctionHandler(plugin, options)

    def make(_: Context) -> Handler:
        found = plugin.load()
        if not isinstance(found, type):
            return FunctionHandler(plugin, options)
        try:
            handler = found(**options)
        except Exception as error:
            raise plugin.error(f"{type(error).__name__}: {error}") from error
        if not isinstance(handler, Handler):
            raise plugin.error(f"a {found.__name__} is no Handler")
        return handler

    return make


class FunctionHandler(Handler):
    """Calls a function with answer, values and options; what it returns changes the keys, a ValueError asks again."""

    def __init__(self, plugin: Plugin, options: Mapping[str, object]) -> None:
        self._plugin = plugin
        self._options = dict(options)

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Call the function."""
        answer = {"content": completion.content, "reasoning": completion.reasoning}
        try:
            changes = await self._plugin.call(answer, _values(context), self._options)
        except PluginError as error:
            if error.again:
                return Again(error.again, f"Your answer cannot be used: {error.again}. Answer again.")
            raise
        _change(self._plugin, context, changes)
        return DONE


def _values(context: Context) -> dict[str, list[object]]:
    return {key: list(values) for key, values in context.items()}


def _change(plugin: Plugin, context: Context, changes: object) -> None:
    if changes is None:
        return
    if not isinstance(changes, Mapping) or not all(isinstance(key, str) for key in changes):
        raise plugin.error(
            f"it returned a value of type {type(changes).__name__}, expected a dict of keys and values, or None"
        )
    for key, value in cast("Mapping[str, object]", changes).items():
        if value is None:
            context.remove(key)
        else:
            context[key] = list(value) if isinstance(value, list | tuple) else [value]
