"""Where expressions and templates of a flow are evaluated: here, or, of foreign flows, in a process of its own."""

from collections.abc import Callable, Coroutine
from typing import TypeVar, cast

from engine.code_process import CodeLimits, CodeWorkers
from engine.errors import CodeError, TemplateError
from engine.flow import expressions
from engine.flow.context import Context
from engine.flow.expressions import MAX_SECONDS, Names
from engine.flow.template import Parts, Slot

WORKER_LIMITS = CodeLimits(seconds=MAX_SECONDS + 3, memory=256 << 20, processes=1, file_size=0)
"""The sandbox counts computing time, the worker that of the clock; the rest is for a busy machine."""

P = TypeVar("P")
T = TypeVar("T")


class Evaluator:
    """Evaluates in this process."""

    suspends = False
    """Whether an evaluation waits for something else."""

    async def evaluate(self, source: str, context: Context, *, passed: bool | None = None) -> object:
        """The value of an expression as plain data; raises TemplateError."""
        return expressions.evaluate(source, context, passed=passed)

    async def render(self, source: str, context: Context) -> Parts:
        """Expand a Jinja2 template; raises TemplateError."""
        return expressions.render(source, context)

    async def holds(self, source: str, context: Context, *, passed: bool | None = None) -> bool:
        """Whether a condition holds; raises TemplateError."""
        return expressions.is_true(await self.evaluate(source, context, passed=passed))


IN_PROCESS = Evaluator()


class WorkerEvaluator(Evaluator):
    """Evaluates in processes that may use 256 MiB and are ended when they take too long."""

    suspends = True

    def __init__(self, workers: CodeWorkers | None = None) -> None:
        self.workers = workers or CodeWorkers("engine.flow.sandbox_child", limits=WORKER_LIMITS)

    async def evaluate(self, source: str, context: Context, *, passed: bool | None = None) -> object:
        """The value of an expression as plain data; raises TemplateError."""
        return await self._ask("expression", source, expressions.expression_names(source), context, passed)

    async def render(self, source: str, context: Context) -> Parts:
        """Expand a Jinja2 template; raises TemplateError."""
        found = await self._ask("template", source, expressions.template_names(source), context, None)
        pieces = cast("list[str | tuple[str, bool]]", found)
        parts = [piece if isinstance(piece, str) else Slot(*piece) for piece in pieces]
        return expressions.with_known_slots(parts, context)

    async def _ask(self, kind: str, source: str, names: Names, context: Context, passed: bool | None) -> object:
        scope = expressions.scope(context, passed)
        if "all" not in names.provided:  # else it may name its keys only when it runs
            wanted = names.keys | names.optional | names.provided
            scope = {name: value for name, value in scope.items() if name in wanted}
        try:
            return await self.workers.call({"kind": kind, "source": source, "scope": scope})
        except CodeError as error:
            raise expressions.failed(kind, source, names, context, _reason(error)) from error
        except (TypeError, ValueError, RecursionError) as error:
            raise expressions.failed(kind, source, names, context, f"a value is no data ({error})") from error


def _reason(error: CodeError) -> str:
    return f"it takes longer than {MAX_SECONDS:g} seconds" if error.kind == "timeout" else error.message


def at_once(function: Callable[[P], Coroutine[object, object, T]]) -> Callable[[P], T]:
    """The plain form of an async function that never waits."""

    def run(argument: P) -> T:
        work = function(argument)
        try:
            work.send(None)
        except StopIteration as done:
            return cast("T", done.value)
        work.close()
        raise TemplateError("An evaluation waited where it cannot.")

    return run
