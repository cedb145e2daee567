"""The course of links."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPointF, QRectF

from workbench.designer.card_grid import CardGrid
from workbench.designer.links import ARROW_GAP, ARROW_LENGTH, LOOP_RISE, curve, goes_back, loop, loop_top

COORDINATES = st.integers(-2000, 2000)


def test_a_row_is_joined_by_a_straight_line() -> None:
    path = curve(QPointF(208.0, 17.0), QPointF(280.0, 17.0))
    assert path.boundingRect().height() == 0.0
    assert path.currentPosition().x() == pytest.approx(280.0 - ARROW_GAP - ARROW_LENGTH + 1.0)


def test_only_links_to_columns_on_the_left_go_over_the_top() -> None:
    start = QPointF(208.0, 17.0)
    assert not goes_back(start, QPointF(280.0, 200.0))
    assert not goes_back(start, QPointF(0.0, 200.0)), "straight below"
    assert goes_back(start, QPointF(-280.0, 17.0))


def test_a_loop_rises_52_above_the_row() -> None:
    start, end = QPointF(508.0, 85.0), QPointF(0.0, 17.0)
    top = loop_top(start, end, 0.0, CardGrid())
    assert top == -LOOP_RISE
    bounds = loop(start, end, top).boundingRect()
    assert bounds.top() == pytest.approx(-52.0)
    assert bounds.bottom() == pytest.approx(85.0)
    assert bounds.left() < -14.0
    assert bounds.right() == pytest.approx(522.0)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(COORDINATES, COORDINATES), max_size=30), COORDINATES, COORDINATES, st.integers(310, 2500))
def test_a_loop_never_runs_through_a_card_on_its_way(
    cards: list[tuple[int, int]], x: int, y: int, distance: int
) -> None:
    grid = CardGrid()
    rects = [QRectF(left, top, 208.0, 100.0) for left, top in cards]
    for index, rect in enumerate(rects):
        grid.place(str(index), rect)
    start, end = QPointF(x + distance, y + 17.0), QPointF(x, y + 17.0)
    height = loop_top(start, end, float(y), grid)
    assert height <= y - LOOP_RISE
    line = QRectF(end.x(), height - 1.0, distance, 2.0)
    assert not [rect for rect in rects if rect.intersects(line)]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), COORDINATES, COORDINATES), max_size=30),
    st.tuples(COORDINATES, COORDINATES, st.integers(1, 1500), st.integers(1, 1500)),
)
def test_the_grid_finds_what_a_look_at_every_card_finds(
    moves: list[tuple[str, int, int]], area: tuple[int, int, int, int]
) -> None:
    grid = CardGrid()
    places: dict[str, QRectF] = {}
    for name, x, y in moves:
        places[name] = QRectF(x, y, 208.0, 120.0)
        grid.place(name, places[name])
        grid.near(QRectF(0.0, 0.0, 1.0, 1.0))
    wanted = QRectF(*area)
    found = sorted((rect.x(), rect.y()) for rect in grid.near(wanted))
    assert found == sorted((rect.x(), rect.y()) for rect in places.values() if rect.intersects(wanted))
