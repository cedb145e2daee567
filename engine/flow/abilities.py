"""What a flow can do beside asking models: its executable parts, and each ability in words (docs/trust.md)."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath, PureWindowsPath
from types import MappingProxyType
from urllib.parse import urlsplit

from engine.errors import FlowError, StorageError
from engine.flow.agent_check import BUILT_IN_HANDLERS, BUILT_IN_MERGES, is_secret
from engine.flow.flow_spec import AgentSpec, FlowSpec, HandlerSpec, InputSpec
from engine.flow.subflow_files import SAMPLE, FlowFiles
from engine.plugin_folder import PluginFolder
from engine.plugins import Plugins

Parts = dict[str, str]
"""Place → text of everything executable; only what is in here decides about trust."""

MAX_INNER = 200
"""Flows that are read to know what a flow can do; a run of more is refused by the limits of their depth."""
_MODEL_ADDRESSES = ("url", "urls", "interfaceUrl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ability:
    """One thing a flow can do."""

    kind: str
    """`code`, `host`, `command`, `folder`, `tool` or `expression`."""
    text: str
    """One sentence for a person."""
    agent: str = ""
    restricted: bool = True
    """It does not happen before the flow is trusted; else it happens in a sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginUse:
    """A plug-in that an agent names."""

    agent: str
    place: str
    kind: str
    name: str


def inner_flows(spec: FlowSpec, files: FlowFiles) -> dict[str, FlowSpec]:
    """The flows from files that run as nodes of this one, at any depth, by their place seen from its folder.

    Samples are none of them, they come with the program. What cannot be read is left out: it does not run either.
    """
    found: dict[str, FlowSpec] = {}
    waiting = [(spec, files.origin)]
    while waiting and len(found) < MAX_INNER:
        outer, origin = waiting.pop()
        for agent in outer.agents:
            if agent.flow is None:
                continue
            try:
                loaded = files.open(agent.flow, origin)
            except (FlowError, StorageError):
                continue
            place = os.path.relpath(loaded.origin, os.path.dirname(files.origin)) if files.origin else loaded.origin
            if not loaded.origin.startswith(SAMPLE) and place not in found:
                found[place] = loaded.spec
                waiting.append((loaded.spec, loaded.origin))
    return found


def executable_parts(
    spec: FlowSpec, folder: PluginFolder | None = None, inner: Mapping[str, FlowSpec] = MappingProxyType({})
) -> Parts:
    """Every executable part of a flow by its place, agents by name: positions, order and descriptions are not in it."""
    parts = _flow_parts(spec)
    for place, one in sorted(inner.items()):
        parts |= {f"{place}, {part}": text for part, text in _flow_parts(one).items()}
    if folder is not None:
        parts |= dict(_file_part(name, content) for name, content in folder.files.items())
    return parts


def _flow_parts(spec: FlowSpec) -> Parts:
    parts: Parts = {}
    for item in spec.inputs:
        if _reads_file(item):
            parts[f"inputs.{item.key}.default"] = str(item.default)
    for agent in spec.agents:
        for place, text in _agent_parts(agent):
            parts[f"{agent.name}: {place}"] = text
    return parts


def _file_part(name: str, content: bytes) -> tuple[str, str]:
    try:
        return f"plugins/{name}", content.decode("utf-8")
    except UnicodeDecodeError:
        return f"plugins/{name} (bytes)", content.hex()


def plugin_uses(spec: FlowSpec) -> list[PluginUse]:
    """The plug-ins a flow names; tools are among them when they are no built-in ones."""
    uses: list[PluginUse] = []
    for agent in spec.agents:
        for place, kind, name in _plugin_places(agent):
            uses.append(PluginUse(agent=agent.name, place=place, kind=kind, name=name))
    return uses


def needs_folder(spec: FlowSpec) -> bool:
    """Whether the flow names anything that may come from the folder beside it."""
    return bool(plugin_uses(spec))


def abilities(spec: FlowSpec, plugins: Plugins) -> list[Ability]:
    """What one flow can do, in the order of its agents; looks names up, imports nothing."""
    found = [_plugin_ability(use, plugins) for use in plugin_uses(spec)]
    for agent in spec.agents:
        found += [
            Ability(kind="host", text=f'Sends what "{agent.name}" asks to {host}.', agent=agent.name)
            for host in _hosts(agent)
        ]
    for item in spec.inputs:
        if _reads_file(item):
            outside = _is_outside(str(item.default))
            text = f'Reads the file {item.default} for the input "{item.key}" unless another is chosen.'
            found.append(Ability(kind="folder", text=text, restricted=outside))
    count = sum(1 for agent in spec.agents for _ in _evaluated(agent))
    if count:
        text = f"Evaluates {count} expressions and templates in a sandbox."
        found.append(Ability(kind="expression", text=text, restricted=False))
    return found


def _plugin_ability(use: PluginUse, plugins: Plugins) -> Ability:
    plugin = plugins.find(use.kind, use.name)
    words = use.kind.removesuffix("s")
    if plugin is None:
        restricted = use.kind != "tools"  # a built-in tool asks by itself
        text = f'Lets the model of "{use.agent}" use the tool "{use.name}".'
        if restricted:
            text = f'Calls the {words} "{use.name}", which is not installed.'
        return Ability(kind="tool" if not restricted else "code", text=text, agent=use.agent, restricted=restricted)
    text = f'Runs the {words} "{use.name}" of {plugin.origin}.'
    return Ability(kind="tool" if use.kind == "tools" else "code", text=text, agent=use.agent)


def _agent_parts(agent: AgentSpec) -> Iterator[tuple[str, str]]:
    yield from _evaluated(agent)
    for place, _, name in _plugin_places(agent):
        yield place, name
    if agent.flow is not None:
        yield "flow", agent.flow
    if agent.pattern is not None:
        yield "pattern", agent.pattern
    if agent.with_ and (agent.flow is not None or agent.pattern is not None):
        yield "with", json.dumps(agent.with_, ensure_ascii=False, sort_keys=True)
    if agent.model is not None and agent.model.inline is not None:
        shown = {key: value for key, value in agent.model.inline.items() if not is_secret(key)}
        yield "model.inline", json.dumps(shown, ensure_ascii=False, sort_keys=True)


def _evaluated(agent: AgentSpec) -> Iterator[tuple[str, str]]:
    """The expressions and Jinja2 templates."""
    yield from _expressions(agent)
    if agent.syntax != "jinja":
        return
    texts = {"system_prompt": agent.system_prompt, "template": agent.template}
    if agent.merge is not None:
        texts["merge.template"] = agent.merge.template or ""
    texts |= {f"with.{key}": value for key, value in agent.with_.items() if isinstance(value, str)}
    yield from ((place, text) for place, text in texts.items() if text)


def _expressions(agent: AgentSpec) -> Iterator[tuple[str, str]]:
    for name in ("before", "after"):
        for index, operation in enumerate(getattr(agent, name)):
            for field in ("to", "when"):
                if (text := getattr(operation, field)) is not None:
                    yield f"{name}[{index}].{field}", text
    for index, route in enumerate(agent.routes):
        if route.when is not None:
            yield f"routes[{index}].when", route.when
    merge = agent.merge
    if merge is not None:
        for field in ("sort_by", "by"):
            if (text := getattr(merge, field)) is not None:
                yield f"merge.{field}", text


def _plugin_places(agent: AgentSpec) -> Iterator[tuple[str, str, str]]:
    """Place, kind and name of each plug-in."""
    for name in ("before", "after"):
        for index, operation in enumerate(getattr(agent, name)):
            if operation.call is not None:
                yield f"{name}[{index}].call", "functions", operation.call
    if agent.merge is not None and agent.merge.type not in BUILT_IN_MERGES:
        yield "merge.type", "merges", agent.merge.type
    handler: HandlerSpec | None = agent.handler
    place = "handler"
    while handler is not None:
        if handler.type not in BUILT_IN_HANDLERS:
            yield f"{place}.type", "handlers", handler.type
        handler, place = handler.then, f"{place}.then"
    for index, tool in enumerate(agent.tools):
        yield f"tools[{index}]", "tools", tool


def _hosts(agent: AgentSpec) -> list[str]:
    inline: Mapping[str, object] = (agent.model.inline if agent.model else None) or {}
    found = []
    for key in _MODEL_ADDRESSES:
        value = inline.get(key)
        for address in str(value).split(",") if isinstance(value, str) else value if isinstance(value, list) else ():
            text = str(address).strip()
            if text and text != "embedded":
                found.append(_host(text))
    return found


def _host(address: str) -> str:
    try:
        return urlsplit(address).netloc.rpartition("@")[2] or address
    except ValueError:
        return address


def _reads_file(item: InputSpec) -> bool:
    return item.type == "file" and item.default not in (None, "", [])


def _is_outside(name: str) -> bool:
    paths = (PurePath(name), PureWindowsPath(name))
    return any(path.is_absolute() or path.drive or ".." in path.parts or name.startswith("~") for path in paths)
