"""Expressions and Jinja2 prompts: what they can do, what they cannot, and that nothing hangs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import TemplateError
from engine.flow import sandbox
from engine.flow.context import BranchError, Context
from engine.flow.expressions import Names, evaluate, expression_names, holds, render, template_names
from engine.flow.template import Slot


@pytest.fixture
def context() -> Context:
    return Context(
        {
            "feature": ["wash dishes", "bake bread", "wash dishes"],
            "topic": "delivery",
            "score": ["40", "7"],
            "one": "5",
            "empty": [],
            "data": [{"items": 3, "list": [1, 2]}],
            "big": "y" * 1_000_000,
            "nasty": "{{ topic }} [[feature]]",
        }
    )


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("topic", "delivery"),
        ("feature", ["wash dishes", "bake bread", "wash dishes"]),
        ("all.topic", ["delivery"]),
        ("all['topic'][0]", "delivery"),
        ("empty", []),
        ("all.feature | map('upper') | unique | list", ["WASH DISHES", "BAKE BREAD"]),
        ("all.feature | unique", ["wash dishes", "bake bread"]),
        ("all.score | map('int') | max < 50", True),
        ("all.score | map('int') | sum", 47),
        ("all.feature[:-1] | join(', ') ~ ', and ' ~ all.feature[-1]", "wash dishes, bake bread, and wash dishes"),
        ("one | int + 1", 6),
        ("topic == 'delivery' and 'bread' in feature[1]", True),
        ("missing is defined", False),
        ("all.missing is defined", False),
        ("missing | default('none')", "none"),
        ("data.items + data.list[1]", 5),
        ("data.get('x', 4)", 4),
        ("topic ~ 1 ~ true ~ none", "delivery1true"),
        ("'%.1f' | format(2.25)", "2.2"),
        ("'%s-%03d' % ('a', 7)", "a-007"),
        ("'%(a)s%%' % {'a': 7}", "7%"),
        ("'%(a)s' | format(a=[1])", "[1]"),
        ("2 ** 10", 1024),
        ("'ab' * 3", "ababab"),
        ("2.346 | round(2)", 2.35),
        ("topic | truncate(5)", "deli…"),
        ("topic | replace('e', 'E')", "dElivEry"),
        ("topic.upper()", "DELIVERY"),
        ("split.index ~ '/' ~ split.count", "1/1"),
        ("attempts", 0),
        ("error is none", True),
        ("nasty", "{{ topic }} [[feature]]"),
        ("{'a': [1, (2, 3)]}", {"a": [1, [2, 3]]}),
        ("none", None),
        ("data | tojson", '{"items": 3, "list": [1, 2]}'),
        ("'x' if score[0] | int > 10 else 'y'", "x"),
    ],
)
def test_value(context: Context, expression: str, value: object) -> None:
    result = evaluate(expression, context)
    assert result == value
    assert type(result) is type(value)


def test_provided_names() -> None:
    context = Context({"error": "a key", "k": "v"})
    context.attempts = 2
    context.split_index, context.split_count = 3, 5
    context.error = BranchError(kind="GENERAL", exception=ValueError("broken"))
    assert evaluate("[attempts, split.index, split.count, error, all.error]", context) == [2, 3, 5, "broken", ["a key"]]
    assert evaluate("passed", context, passed=True) is True
    with pytest.raises(TemplateError, match='there is no key "passed"'):
        evaluate("passed", context)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'false'", False),
        ("'False '", False),
        ("'true'", True),
        ("''", False),
        ("'no'", True),
        ("[]", False),
        ("0", False),
    ],
)
def test_conditions(expression: str, expected: bool) -> None:
    assert holds(expression, Context()) is expected


@pytest.mark.parametrize(
    "expression",
    [
        "9**(9**9)",
        "2**20000",
        "10**3000 * 10**3000",
        "'a' * 10**9",
        "10**9 * 'a'",
        "[0] * 10**9",
        "'%1000000000d' % 1",
        "'%.1000000000f' | format(1)",
        "'%s' * 1000 % ((big,) * 1000)",
        "'%(a)s' * 1000 % {'a': big}",
        "'%(a)1000d' * 100000 % {'a': 1}",
        "'%s' * 100 | format(*[big] * 100)",
        "range(10**9) | list",
        "range(10**30)",
        "big ~ big ~ big ~ big ~ big",
        "big + big + big + big + big",
        "big | replace('y', big)",
        "[big, big, big] | join(big)",
        "['a' * 3000000, 'b' * 3000000]",
        "1 | round(10**9, 'ceil')",
        "[[], []] | sum(start=[])",
    ],
)
def test_nothing_grows_without_end(context: Context, expression: str) -> None:
    with pytest.raises(TemplateError):
        evaluate(expression, context)


@pytest.mark.parametrize(
    "expression",
    [
        "''.__class__",
        "''.__class__.__mro__[1].__subclasses__()",
        "''['__class__']",
        "data['__class__']",
        "topic | attr('__class__')",
        "[topic] | map(attribute='__class__') | list",
        "'{0.__class__}'.format(1)",
        "'{0.__class__}'.format_map({'0': 1})",
        "'{0}' | format(1) | attr('x')",
        "range.__globals__",
        "dict.__base__",
        "dict.fromkeys('ab')",
        "self",
        "self.__init__",
        "self._TemplateReference__context",
        "range",
        "lipsum()",
        "cycler('a')",
        "namespace()",
        "joiner()",
        "all.feature.append(1)",
        "data.pop('items')",
        "data.clear()",
        "(1).real",
        "topic.encode()",
        "topic.center(10**9)",
        "caller()",
        "get_flashed_messages()",
    ],
)
def test_nothing_but_data_is_reached(context: Context, expression: str) -> None:
    before = context.values_copy()
    with pytest.raises(TemplateError):
        evaluate(expression, context)
    assert context.values_copy() == before


@pytest.mark.parametrize(
    "expression", ["a +", "'a' if", "", "a b", "{{ a }}", "a | nothing", "(" * 3000, "x" * 10_001, "a is foo", "a, b +"]
)
def test_what_does_not_compile(expression: str) -> None:
    with pytest.raises(TemplateError, match="is not valid"):
        evaluate(expression, Context())


def test_an_error_names_expression_and_values(context: Context) -> None:
    with pytest.raises(TemplateError) as caught:
        evaluate("all.score | map('int') | max < topic", context)
    assert "`all.score | map('int') | max < topic` failed" in str(caught.value)
    assert caught.value.facts["expression"] == "all.score | map('int') | max < topic"
    assert caught.value.facts["value"] == '{"score": ["40", "7"], "topic": ["delivery"]}'
    with pytest.raises(TemplateError) as caught:
        evaluate("scores", context)
    assert 'there is no key "scores"' in str(caught.value)
    assert "is defined" in caught.value.hint


def test_endless_work_is_stopped(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MAX_SECONDS", 0.3)
    with pytest.raises(TemplateError, match=r"longer than 0\.3 seconds"):
        evaluate("range(100000) | select('in', range(100000) | list) | list", context)
    loops = "{% for a in range(9999) %}" * 4 + "{% endfor %}" * 4
    with pytest.raises(TemplateError, match=r"longer than 0\.3 seconds"):
        render(loops, context)


@pytest.mark.parametrize(
    ("template", "parts"),
    [
        ("plain text\n", ("plain text\n",)),
        ("Topic {{ topic }}: {{ feature }}.", ("Topic delivery: wash dishes\n\nbake bread\n\nwash dishes.",)),
        ("{{ data.list }} {{ data }}", ('1\n\n2 {"items":3,"list":[1,2]}',)),
        ("A [[feature]] b [[one|hidden]]c", ("A ", Slot("feature"), " b ", Slot("one", hidden=True), "c")),
        ("{% filter upper %}a [[feature]]{% endfilter %}", ("A ", Slot("feature"))),
        ("[[unknown]] [[1, 2]] {{ [[1]] }}", ("[[unknown]]", " [[1, 2]] [1]")),
        ("{{ nasty }}", ("{{ topic }} [[feature]]",)),
        ("{% for f in all.feature %}{{ loop.index }}/{{ loop.length }} {% endfor %}", ("1/3 2/3 3/3 ",)),
        ("{% if missing is defined %}x{% else %}y{% endif %}", ("y",)),
        ("", ()),
    ],
)
def test_templates(context: Context, template: str, parts: tuple[str | Slot, ...]) -> None:
    rendered = render(template, context)
    merged = (
        tuple(part for part in rendered if isinstance(part, Slot)),
        "".join(part if isinstance(part, str) else part.source for part in rendered),
    )
    expected = (
        tuple(part for part in parts if isinstance(part, Slot)),
        "".join(part if isinstance(part, str) else part.source for part in parts),
    )
    assert merged == expected


@pytest.mark.parametrize(
    "template",
    [
        "{{ missing }}",
        "{% include 'x' %}",
        "{% import 'os' as os %}",
        "{% extends 'x' %}",
        "{% for x in range(99999) %}{{ big }}{% endfor %}",
        "{% set x %}{% for x in range(99999) %}{{ big }}{% endfor %}{% endset %}",
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% for x in 'ab' recursive %}{{ loop('ab') }}{% endfor %}",
        "{% for x in 'ab' %}{{ loop.__class__ }}{% endfor %}",
        "{% macro m() %}{% endmacro %}{{ m.__globals__ }}",
        "{% do feature.append(1) %}",
        "{% if %}",
        "{{ topic",
        "{{ topic }}" * 5_000,
        "x" * 1_000_001,
    ],
)
def test_templates_fail_with_a_typed_error(context: Context, template: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(template, context)
    assert caught.value.facts["template"] == template[:2000]


def test_names_of_an_expression() -> None:
    names = expression_names("all.a | max + b + (c | default(1)) + all['d'] + split.index + (e if e is defined else 1)")
    assert names == Names(frozenset("abd"), frozenset("ce"), frozenset(), frozenset(["all", "split"]))


def test_names_of_a_template() -> None:
    names = template_names("{{ a }} [[b]] [[c|hidden]] {% for x in all.d %}{{ x }}{% endfor %}")
    assert names == Names(frozenset("ad"), slots=frozenset("bc"), provided=frozenset(["all"]))


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab.|()[]{}'~+*%<>=!,:0 1_-\"\\x", max_size=25))
def test_any_text_gives_a_value_or_a_typed_error(source: str) -> None:
    context = Context({"a": ["1", "2"], "b": "x"})
    try:
        value = evaluate(source, context)
    except TemplateError:
        return
    assert value is None or isinstance(value, str | int | float | list | dict)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_values_are_never_templates(value: str) -> None:
    context = Context({"k": value, "topic": "secret"})
    assert "".join(str(part) for part in render("<{{ k }}>", context)) == f"<{value}>"
    assert evaluate("k", context) == value
