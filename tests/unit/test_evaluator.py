"""Expressions and templates of foreign flows run in a process of their own, within bounds (reliability R60)."""

import json
from collections.abc import AsyncIterator

import pytest

from engine.errors import TemplateError
from engine.flow.context import Context
from engine.flow.evaluator import IN_PROCESS, WORKER_LIMITS, Evaluator, WorkerEvaluator
from engine.flow.executor import Walk
from engine.flow.flow_build import build_flow
from engine.flow.flow_file import read_flow
from engine.flow.flow_inputs import inputs_context
from engine.flow.template import Slot
from tests.helpers.scripted_completer import ScriptedCompleter


@pytest.fixture
async def worker() -> AsyncIterator[WorkerEvaluator]:
    found = WorkerEvaluator()
    yield found
    await found.workers.aclose()


async def both(worker: Evaluator, source: str, context: Context) -> object:
    here, there = await IN_PROCESS.evaluate(source, context), await worker.evaluate(source, context)
    assert here == there
    return there


async def test_it_answers_as_this_process_does(worker: WorkerEvaluator) -> None:
    context = Context({"n": ["7"], "many": ["a", "b"], "map": [{"x": [1, None]}]})
    assert await both(worker, "n | int + 1", context) == 8
    assert await both(worker, "all.many | join('-')", context) == "a-b"
    assert await both(worker, "map.x", context) == [1, None]
    assert await both(worker, "missing is defined", context) is False
    assert await both(worker, "split.count + attempts", context) == 1
    assert await both(worker, "all[n] is defined", context) is False
    assert await worker.holds("passed and error is none", context, passed=True)
    template = "{% for m in all.many %}{{ m }}{% endfor %} [[many]] [[many|hidden]] [[none]]"
    parts = await worker.render(template, context)
    assert parts == await IN_PROCESS.render(template, context)
    assert parts == ("ab ", Slot("many"), " ", Slot("many", True), " ", "[[none]]")


ESCAPES = [
    "().__class__.__bases__[0].__subclasses__()",
    "''.__class__.mro()",
    "[].append.__globals__",
    "''.format.__self__",
    "'{0.__class__}'.format(1)",
    "range.__init__.__globals__",
    "a['__class__']",
    "self.__init__.__globals__",
    "cycler.__init__",
    "lipsum.__globals__['os'].popen('id')",
    "a | attr('__class__')",
    "(a | map(attribute='__class__') | list)",
    "namespace()",
    "joiner",
]
EXHAUSTIONS = [
    "9**(9**9)",
    "'x' * 10000000000",
    "range(10**9) | list",
    "[0] * 10**10",
    "'%1000000000d' % 1",
    "range(100000) | map('string') | join(range(9999) | join)",
]
TEMPLATES = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends 'a' %}",
]


async def test_nothing_escapes_or_exhausts(worker: WorkerEvaluator) -> None:
    context = Context({"a": ["x"]})
    for source in ESCAPES + EXHAUSTIONS:
        with pytest.raises(TemplateError):
            await worker.evaluate(source, context)
    for source in TEMPLATES:
        with pytest.raises(TemplateError):
            await worker.render(source, context)
    assert await worker.evaluate("a", context) == "x"


async def test_memory_is_bounded_from_outside(worker: WorkerEvaluator) -> None:
    assert WORKER_LIMITS.memory == 256 << 20
    # Each text is within the bounds of the sandbox, all together are not within those of the process.
    names = "".join(f"{{% set x{i} = 'y' * 4000000 %}}" for i in range(90)) + "{{ x0 | length }}"
    with pytest.raises(TemplateError, match="memory"):
        await worker.render(names, Context())
    assert await worker.evaluate("1 + 1", Context()) == 2


@pytest.mark.parametrize("place", ["here", "worker"])
async def test_values_are_never_templates(worker: WorkerEvaluator, place: str) -> None:
    evaluator = worker if place == "worker" else IN_PROCESS
    context = Context({"a": ["{{ 7 * 7 }} {{b}} [[b]] {% raw %}"], "b": ["secret", "other"]})
    assert await evaluator.render("{{ a }}", context) == ("{{ 7 * 7 }} {{b}} [[b]] {% raw %}",)
    assert await evaluator.evaluate("a ~ '{{ b }}'", context) == "{{ 7 * 7 }} {{b}} [[b]] {% raw %}{{ b }}"


async def test_a_whole_flow_walks_the_same(worker: WorkerEvaluator) -> None:
    document = {
        "format": "workbench.flow",
        "version": 1,
        "name": "F",
        "inputs": [{"key": "n", "type": "list", "default": [3, 10, 9]}],
        "agents": [
            {
                "name": "Split",
                "type": "COMPLETION",
                "syntax": "jinja",
                "system_prompt": "{{ all.n | length }}",
                "template": "[[n]]{% if true %}!{% endif %}",
                "before": [{"set": "n", "to": "all.n | sort"}, {"set": "gone", "to": "none"}],
                "after": [{"set": "big", "to": "n * 2", "when": "n > 5"}],
                "merge": {"type": "join", "key": "lines", "template": "{{ n }}: {{ response }}", "sort_by": "0 - n"},
                "routes": [{"when": "lines is defined and 'a' in lines", "to": "Best"}],
            },
            {
                "name": "Best",
                "type": "COMPLETION",
                "template": "[[n]]",
                "before": [{"set": "n", "to": "[1, 2, 3]"}],
                "merge": {"type": "best", "by": "n % 3"},
            },
        ],
    }
    spec = read_flow(json.dumps(document)).spec

    async def walked(evaluator: Evaluator) -> list[tuple[dict[str, list[object]], str]]:
        completer = ScriptedCompleter(lambda request: "a" + request.prompt)
        flow = build_flow(spec, evaluator=evaluator)
        walk = Walk(flow, inputs_context(spec, {}), completer, run_id="r", emit=lambda _: None)
        return [(context.values_copy(), context.trace.text()) for context in await walk.run()]

    here = await walked(IN_PROCESS)
    assert here[0][0]["lines"] == ["10: a10!\n9: a9!\n3: a3!"]
    assert here[0][0]["n"] == [2]
    assert await walked(worker) == here


async def test_what_is_no_data_is_an_error(worker: WorkerEvaluator) -> None:
    with pytest.raises(TemplateError, match="no data"):
        await worker.evaluate("a", Context({"a": [object()]}))
