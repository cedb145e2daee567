"""Places agents in columns from left to right, as a pure function. Links that lead back pass over the top."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median

from engine.flow.flow_spec import FlowSpec
from workbench.designer.card_content import CARD_WIDTH, card_content
from workbench.designer.placement import placed, targets

GAP = 38.0
COLUMN_STEP = CARD_WIDTH + GAP
ROW_GAP = 40.0
_SWEEPS = 4

Links = Mapping[str, Sequence[str]]


def layered(
    spec: FlowSpec, names: Collection[str] = (), heights: Mapping[str, float] | None = None
) -> dict[str, tuple[float, float]]:
    """New places for agents, or for all when none are named; their upper left corner stays where it was.

    `heights` are those of the cards, if they are known.
    """
    wanted = {agent.name for agent in spec.agents if not names or agent.name in names}
    if not wanted:
        return {}
    agents = {agent.name: agent for agent in reversed(spec.agents) if agent.name in wanted}
    order = [agent.name for agent in spec.agents if agent.name in wanted]
    order = list(dict.fromkeys(order))
    links = {name: [one for one in targets(agents[name]) if one in wanted and one != name] for name in order}
    first = [spec.start] if spec.start in wanted else []
    forward = _forward(links, [*first, *order])
    column = _columns(forward)
    known = heights or {name: card_content(spec, agents[name]).body_height for name in order}
    spaces = {name: known[name] + ROW_GAP for name in order}
    columns: list[list[str]] = [[] for _ in range(max(column.values()) + 1)]
    for name in _walked(links, [*first, *order]):
        columns[column[name]].append(name)
    tops = _tops(columns, forward, spaces)
    before = placed(spec)
    left, top = (min(before[name][axis] for name in order) for axis in (0, 1))
    highest = min(tops.values())
    return {name: (left + column[name] * COLUMN_STEP, round(top + tops[name] - highest)) for name in order}


def _walked(links: Links, roots: Sequence[str]) -> Iterator[str]:
    """Every agent once, depth first, so that branches stay together."""
    seen: set[str] = set()
    for root in roots:
        waiting = [root]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                yield name
                waiting += reversed(links[name])


def _forward(links: Links, roots: Sequence[str]) -> dict[str, list[str]]:
    """The links without those that lead back to an agent on the way to where they begin."""
    forward: dict[str, list[str]] = {name: [] for name in links}
    done: set[str] = set()
    for root in roots:
        if root in done:
            continue
        work = [(root, iter(links[root]))]
        on_way = {root}
        while work:
            name, rest = work[-1]
            target = next(rest, None)
            if target is None:
                work.pop()
                on_way.discard(name)
                done.add(name)
            elif target not in on_way:
                if target not in forward[name]:
                    forward[name].append(target)
                if target not in done:
                    on_way.add(target)
                    work.append((target, iter(links[target])))
    return forward


def _columns(forward: Links) -> dict[str, int]:
    """Each agent right of all that lead to it."""
    waits = dict.fromkeys(forward, 0)
    for ends in forward.values():
        for target in ends:
            waits[target] += 1
    column = dict.fromkeys(forward, 0)
    ready = [name for name, count in waits.items() if not count]
    while ready:
        name = ready.pop()
        for target in forward[name]:
            column[target] = max(column[target], column[name] + 1)
            waits[target] -= 1
            if not waits[target]:
                ready.append(target)
    return column


def _tops(columns: Sequence[list[str]], forward: Links, heights: Mapping[str, float]) -> dict[str, float]:
    """Upper edges: each card as near as there is room to the height of those it is linked with, header by header."""
    backward: dict[str, list[str]] = {name: [] for name in forward}
    for name, ends in forward.items():
        for target in ends:
            backward[target].append(name)
    tops: dict[str, float] = {}
    for column in columns:
        _place(column, backward, tops, heights)
    for sweep in range(_SWEEPS):
        leftwards = sweep % 2 == 0
        for column in reversed(columns) if leftwards else columns:
            _place(column, forward if leftwards else backward, tops, heights)
    return tops


def _place(column: list[str], neighbours: Links, tops: dict[str, float], heights: Mapping[str, float]) -> None:
    wish: dict[str, float] = {}
    for name in column:
        known = [tops[one] for one in neighbours[name] if one in tops]
        wish[name] = median(known) if known else tops.get(name, 0.0)
    column.sort(key=wish.__getitem__)
    tops.update(_apart(column, wish, heights))


def _apart(column: Sequence[str], wish: Mapping[str, float], heights: Mapping[str, float]) -> dict[str, float]:
    """Places that do not overlap, in order, with the least movement: neighbours that collide move as one block."""
    offsets: list[float] = []
    total = 0.0
    for name in column:
        offsets.append(total)
        total += heights[name]
    blocks: list[tuple[float, int]] = []
    for name, offset in zip(column, offsets, strict=True):
        mean, count = wish[name] - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, size = blocks.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        blocks.append((mean, count))
    starts = [mean for mean, count in blocks for _ in range(count)]
    return {name: start + offset for name, start, offset in zip(column, starts, offsets, strict=True)}
