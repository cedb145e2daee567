"""Paints one cell of the grid, and knows where its parts are."""

from enum import Enum, auto

from PySide6.QtCore import QCoreApplication, QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QFontMetrics, QPainter

from engine.comparison_values import Cell, CellResult, Mark
from workbench.comparison.board import Board, Line, Live
from workbench.comparison.cell_text import CellTexts
from workbench.comparison.looks import LOOKS, phase_text, score_look, status_text
from workbench.text_format import cost_text, plain_rate_text, seconds_text, tokens_text
from workbench.theme import theme
from workbench.widgets.icon_label import paint_state_icon

translate = QCoreApplication.translate

MARGIN, TOP, ICON, HIT, FOOT = 12, 8, 14, 24, 26
REASONING = 20
"""Height of the line that tells of the reasoning."""
MIDDLE = Qt.AlignmentFlag.AlignVCenter


class Part(Enum):
    """A part of a cell that can be pressed."""

    BODY = auto()
    MENU = auto()
    DIFF = auto()
    REASONING = auto()
    UP = auto()
    DOWN = auto()
    STAR = auto()


class CellPainter:
    """Draws answers as they are known."""

    def __init__(self, board: Board, texts: CellTexts) -> None:
        self._board = board
        self._texts = texts

    # -- where things are ---------------------------------------------------------------------------------------------

    def parts(self, line: Line, profile: str, rect: QRect) -> dict[Part, QRect]:
        """The parts of a cell that can be pressed, with their places."""
        hit, right = theme.px(HIT), rect.right() - theme.px(6)
        found: dict[Part, QRect] = {}
        top = rect.top() + theme.px(4)
        for part in (Part.MENU, Part.DIFF):
            found[part] = QRect(right - hit, top, hit, hit)
            right -= hit
        answer = self._board.answers.get(line.cell(profile))
        if answer is None or not self._board.is_open(line):
            return found
        right, foot = rect.right() - theme.px(6), rect.bottom() - theme.px(FOOT)
        for part in (Part.STAR, Part.DOWN, Part.UP):
            found[part] = QRect(right - hit, foot, hit, hit)
            right -= hit
        if answer.result.reasoning and not self._board.blind:
            width = rect.width() - 2 * theme.px(MARGIN)
            left = rect.left() + theme.px(MARGIN)
            found[Part.REASONING] = QRect(left, rect.top() + theme.px(28), width, theme.px(REASONING))
        return found

    def part_at(self, line: Line, profile: str, rect: QRect, pos: QPoint) -> Part:
        """Which part of a cell is at a point."""
        for part, place in self.parts(line, profile, rect).items():
            if place.contains(pos):
                return part
        return Part.BODY

    def content_rect(self, line: Line, profile: str, rect: QRect) -> QRect:
        """Where the answer stands."""
        margin, top = theme.px(MARGIN), theme.px(30)
        cell = line.cell(profile)
        answer, live = self._board.answers.get(cell), self._board.live.get(cell)
        thought = answer.result.reasoning if answer else live.reasoning if live else ""
        if thought and not self._board.blind:
            top += theme.px(REASONING)
            if self._board.shows_reasoning and answer is not None:
                width = rect.width() - 2 * margin
                most = (rect.height() - top - theme.px(FOOT)) // 2
                top += min(round(self._texts.height(thought, width, color="text2")) + theme.px(6), most)
        return rect.adjusted(margin, top, -margin, -theme.px(FOOT) - theme.px(4))

    # -- in words -----------------------------------------------------------------------------------------------------

    def said(self, line: Line, cell: Cell) -> str:
        """A cell for those who do not see it."""
        column = self._board.columns(line).index(cell.profile)
        who = self.column_name(column, cell.profile)
        place = translate("Comparison", "row %1").replace("%1", str(cell.row))
        answer = self._board.answers.get(cell)
        if not self._board.is_open(line) or (answer is None and cell not in self._board.live):
            return f"{who}, {place}: {translate('Comparison', 'no answer yet')}"
        if answer is None:
            return f"{who}, {place}: {phase_text(self._board.live[cell].phase)}"
        parts = [f"{who}, {place}: {status_text(answer.result)}"]
        look = None if self._board.blind else score_look(answer.result)
        if look is not None:
            parts.append(translate("Comparison", "score %1").replace("%1", look[2]))
        parts.append(answer.result.content[:300])
        return ", ".join(part for part in parts if part)

    def column_name(self, column: int, profile: str) -> str:
        """What a column is called: its profile, or a letter while names are hidden."""
        if self._board.blind:
            return translate("Comparison", "Answer %1").replace("%1", chr(ord("A") + column))
        return profile

    def tip(self, line: Line, profile: str, part: Part) -> str:
        """What a part of a cell does, or what there is no room for."""
        tips = {
            Part.MENU: translate("Comparison", "What can be done with this answer"),
            Part.DIFF: translate("Comparison", "Compare word by word (D)"),
            Part.REASONING: translate("Comparison", "Show or hide the reasoning"),
            Part.UP: translate("Comparison", "Good (+)"),
            Part.DOWN: translate("Comparison", "Not good (-)"),
            Part.STAR: translate("Comparison", "Stars: one more with each press, none after five (*)"),
        }
        if part is not Part.BODY:
            return tips[part]
        answer = self._board.answers.get(line.cell(profile))
        if answer is None or self._board.blind:
            return ""
        lines = []
        for grade in answer.result.grades:
            rating = "" if grade.rating is None else f" {grade.rating:g}"
            lines.append(f"{grade.grader}: {grade.outcome.value}{rating} {grade.explanation}".rstrip())
        mark = self._board.marks.get(line.cell(profile))
        if mark is not None and mark.note:
            lines.append(mark.note)
        if answer.result.error is not None:
            lines.append(f"{answer.result.error.message} {answer.result.error.hint}".rstrip())
        return "\n".join(lines)

    # -- painting -----------------------------------------------------------------------------------------------------

    def paint_head(self, painter: QPainter, column: int, rect: QRect) -> None:
        """Draw the head of a column."""
        profile = self._board.job.profiles[column]
        size, left = theme.px(10), rect.left() + theme.px(MARGIN)
        if self._board.blind:
            place = QRectF(left, rect.center().y() - theme.px(7), theme.px(14), theme.px(14))
            theme.paint_icon(painter, "eye-off", place, "reason")
        else:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color(f"series.{column % 8 + 1}"))
            painter.drawEllipse(QRectF(left, rect.center().y() - size / 2 + 1, size, size))
        painter.setFont(theme.font(13, 600))
        painter.setPen(theme.color("text"))
        name = QRect(left + theme.px(20), rect.top(), rect.width() - theme.px(60), rect.height())
        text = QFontMetrics(painter.font()).elidedText(
            self.column_name(column, profile), Qt.TextElideMode.ElideMiddle, name.width()
        )
        painter.drawText(name, MIDDLE, text)
        chevron = QRectF(rect.right() - theme.px(26), rect.center().y() - theme.px(7), theme.px(14), theme.px(14))
        theme.paint_icon(painter, "chevron-down", chevron, "text2")
        painter.fillRect(QRect(rect.right(), rect.top(), 1, rect.height()), theme.color("line"))

    def paint(
        self,
        painter: QPainter,
        line: Line,
        profile: str,
        rect: QRect,
        now: float,
        *,
        hovered: Part | None = None,
        scrolled: int = 0,
        without_text: bool = False,
    ) -> None:
        """Draw a cell. `scrolled` is how far its text is scrolled, `without_text` that a widget shows it."""
        painter.fillRect(QRect(rect.left(), rect.bottom(), rect.width(), 1), theme.color("line"))
        painter.fillRect(QRect(rect.right(), rect.top(), 1, rect.height()), theme.color("line"))
        cell = line.cell(profile)
        answer, live = self._board.answers.get(cell), self._board.live.get(cell)
        for part in (Part.MENU, Part.DIFF):
            place = self.parts(line, profile, rect)[part]
            self._paint_button(painter, place, "more" if part is Part.MENU else "diff", "text2", hovered is part)
        if not self._board.is_open(line):
            text = translate("Comparison", "Opens when all answers are in")
            self._paint_status(painter, rect, "pending", "muted", text, "muted")
        elif live is not None:
            self._paint_live(painter, line, profile, rect, live, now)
        elif answer is not None:
            self._paint_answer(painter, line, profile, rect, answer.result, hovered, scrolled, without_text)
        else:
            self._paint_status(painter, rect, "pending", "muted", translate("Comparison", "Not asked yet"), "muted")

    def _paint_status(self, painter: QPainter, rect: QRect, icon: str, color: str, text: str, ink: str) -> None:
        left, top, size = rect.left() + theme.px(MARGIN), rect.top() + theme.px(TOP), theme.px(ICON)
        paint_state_icon(painter, icon, QRectF(left, top, size, size), color)
        painter.setFont(theme.font(12, 600 if ink not in ("muted", "text2") else 400))
        painter.setPen(theme.color(ink))
        room = rect.width() - 2 * theme.px(MARGIN) - 2 * theme.px(HIT) - theme.px(20)
        shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QRect(left + theme.px(20), top - theme.px(2), room, theme.px(18)), MIDDLE, shown)

    def _paint_live(self, painter: QPainter, line: Line, profile: str, rect: QRect, live: Live, now: float) -> None:
        text = f"{phase_text(live.phase)} {seconds_text(now - live.began)}"
        self._paint_status(painter, rect, "spinner", "run", live.note or text, "run")
        if live.reasoning:
            self._paint_reasoning(painter, rect, translate("Comparison", "Reasoning"), False)
        place = self.content_rect(line, profile, rect)
        self._paint_end(painter, live.content or live.reasoning, place, "text" if live.content else "text2")

    def _paint_end(self, painter: QPainter, text: str, place: QRect, color: str) -> None:
        """Draw a text that grows: its end is in sight."""
        height = self._texts.height(text, place.width(), color=color)
        top = place.top() - max(0.0, height - place.height())
        self._clipped(painter, text, place, top, color=color)

    def _clipped(
        self,
        painter: QPainter,
        text: str,
        place: QRect,
        top: float,
        *,
        marked: frozenset[str] = frozenset(),
        color: str = "text",
    ) -> None:
        painter.save()
        painter.setClipRect(place, Qt.ClipOperation.IntersectClip)
        self._texts.paint(painter, text, QPointF(place.left(), top), place.width(), marked=marked, color=color)
        painter.restore()

    def _paint_answer(
        self,
        painter: QPainter,
        line: Line,
        profile: str,
        rect: QRect,
        result: CellResult,
        hovered: Part | None,
        scrolled: int,
        without_text: bool,
    ) -> None:
        icon, color = LOOKS[result.status]
        kept = result.statistics.cached_prompts and not result.statistics.requests
        text = status_text(result)
        if kept and not self._board.blind:
            icon, color, text = "cached", "text2", translate("Comparison", "From the cache")
        ink = "text2" if color in ("ok", "text2") else color
        self._paint_status(painter, rect, icon, color, text, ink)
        if not self._board.blind:
            self._paint_score(painter, rect, result)
        place = self.content_rect(line, profile, rect)
        if result.reasoning and not self._board.blind:
            self._paint_thought(painter, rect, place, result, hovered is Part.REASONING)
        if result.content and not without_text:
            marked = self._board.own_words(line, profile)
            self._clipped(painter, result.content, place, place.top() - scrolled, marked=marked)
        elif result.error is not None and not result.content:
            said = translate("Comparison", "It failed.") if self._board.blind else result.error.message
            self._clipped(painter, said, place, place.top())
        self._paint_foot(painter, line, profile, rect, result, hovered)

    def _paint_thought(self, painter: QPainter, rect: QRect, place: QRect, result: CellResult, hovered: bool) -> None:
        used = result.statistics
        words = [translate("Comparison", "Reasoning")]
        if used.reasoning_out_tokens:
            words.append(f"{tokens_text(used.reasoning_out_tokens, used.estimated)} tok")
        shown = self._board.shows_reasoning
        self._paint_reasoning(painter, rect, "  ".join(words), shown, hovered=hovered)
        if shown:
            top = rect.top() + theme.px(30 + REASONING)
            above = QRect(place.left(), top, place.width(), place.top() - top - theme.px(4))
            self._clipped(painter, result.reasoning, above, top, color="text2")

    def _paint_reasoning(
        self, painter: QPainter, rect: QRect, text: str, unfolded: bool, *, hovered: bool = False
    ) -> None:
        left, top, size = rect.left() + theme.px(MARGIN), rect.top() + theme.px(31), theme.px(12)
        chevron = "chevron-down" if unfolded else "chevron-right"
        theme.paint_icon(painter, chevron, QRectF(left, top, size, size), "text" if hovered else "text2")
        theme.paint_icon(painter, "reasoning", QRectF(left + theme.px(16), top, size, size), "reason")
        painter.setFont(theme.font(11))
        painter.setPen(theme.color("text" if hovered else "muted"))
        painter.drawText(QRect(left + theme.px(34), top - theme.px(2), rect.width(), theme.px(16)), MIDDLE, text)

    def _paint_score(self, painter: QPainter, rect: QRect, result: CellResult) -> None:
        look = score_look(result)
        if look is None:
            return
        icon, color, text = look
        painter.setFont(theme.font(11, 600))
        width = painter.fontMetrics().horizontalAdvance(text) + theme.px(28)
        right = rect.right() - theme.px(6) - 2 * theme.px(HIT) - theme.px(4)
        chip = QRect(right - width, rect.top() + theme.px(6), width, theme.px(19))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color(f"tint.{color}"))
        painter.drawRoundedRect(chip, theme.px(4), theme.px(4))
        size = theme.px(12)
        place = QRectF(chip.left() + theme.px(6), chip.center().y() - size / 2 + 1, size, size)
        theme.paint_icon(painter, icon, place, color)
        painter.setPen(theme.color(color))
        painter.drawText(chip.adjusted(theme.px(21), 0, 0, 0), MIDDLE, text)

    def _paint_foot(
        self, painter: QPainter, line: Line, profile: str, rect: QRect, result: CellResult, hovered: Part | None
    ) -> None:
        mark = self._board.marks.get(line.cell(profile), Mark())
        looks = {
            Part.UP: ("thumb-up", "ok" if mark.thumb > 0 else "text2"),
            Part.DOWN: ("thumb-down", "err" if mark.thumb < 0 else "text2"),
            Part.STAR: ("star", "warn" if mark.stars else "text2"),
        }
        places = self.parts(line, profile, rect)
        for part, (icon, color) in looks.items():
            self._paint_button(painter, places[part], icon, color, hovered is part)
        if mark.stars:
            painter.setFont(theme.font(10, 700))
            painter.setPen(theme.color("warn"))
            painter.drawText(places[Part.STAR].adjusted(theme.px(15), theme.px(9), 0, 0), MIDDLE, str(mark.stars))
        if self._board.blind:
            return
        left, top = rect.left() + theme.px(MARGIN), rect.bottom() - theme.px(FOOT)
        foot = QRect(left, top, places[Part.UP].left() - left - theme.px(8), theme.px(HIT))
        painter.setFont(theme.font(11))
        painter.setPen(theme.color("muted"))
        metrics = painter.fontMetrics()
        text = metrics.elidedText(figures_text(result), Qt.TextElideMode.ElideRight, foot.width())
        painter.drawText(foot, MIDDLE, text)

    @staticmethod
    def _paint_button(painter: QPainter, place: QRect, icon: str, color: str, hovered: bool) -> None:
        if hovered:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("bg.hover"))
            painter.drawRoundedRect(place.adjusted(1, 1, -1, -1), theme.px(4), theme.px(4))
        size = theme.px(ICON)
        middle = QRectF(place).center()
        theme.paint_icon(painter, icon, QRectF(middle.x() - size / 2, middle.y() - size / 2, size, size), color)


def figures_text(result: CellResult) -> str:
    """The statistics line of an answer: `3.8 s  412 → 96  $0.0031  74/s`."""
    used = result.statistics
    if not used.requests:
        return ""
    tokens_in = tokens_text(used.in_tokens + used.cached_in_tokens, used.estimated)
    tokens_out = tokens_text(used.out_tokens + used.reasoning_out_tokens, used.estimated)
    parts = [seconds_text(used.effective_seconds), f"{tokens_in} → {tokens_out}", cost_text(used.cost, used.provenance)]
    if result.out_tps is not None:
        parts.append(f"{plain_rate_text(result.out_tps, used.estimated)}/s")
    return "   ".join(parts)
