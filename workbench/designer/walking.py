"""Which agent an arrow key leads to: along the links to the right and left, to the neighbour above and below."""

from collections.abc import Mapping

from engine.flow.flow_spec import FlowSpec
from workbench.designer.link_edits import links_of

Places = Mapping[str, tuple[float, float]]


def walked_to(spec: FlowSpec, places: Places, current: str, right: int, down: int) -> str:
    """The next agent from the current one, the same when there is none; without a current one the start."""
    if current not in places:
        return spec.start if spec.start in places else next(iter(places), "")
    x, y = places[current]
    if right:
        linked = _linked(spec, current, forward=right > 0)
        near = [name for name in linked if name in places and name != current]
        return min(near, key=lambda name: abs(places[name][1] - y), default=current)
    ahead = [name for name, (_, top) in places.items() if name != current and (top - y) * down > 0]
    # Beside counts double: the next card of the same column comes before a nearer one of another.
    return min(ahead, key=lambda name: abs(places[name][1] - y) + 2 * abs(places[name][0] - x), default=current)


def _linked(spec: FlowSpec, name: str, *, forward: bool) -> list[str]:
    pairs = ((source, target) for source, _, target in links_of(spec))
    return [target if forward else source for source, target in pairs if (source if forward else target) == name]
