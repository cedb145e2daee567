"""Why an expression or template fails is said in words of the flow, not in those of Jinja2 or Python."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import TemplateError
from engine.flow.context import Context
from engine.flow.evaluation_faults import reason_of
from engine.flow.expressions import evaluate, render

KEYS = {"n": "abc", "k": 3, "two": ["a", "b"], "none": [], "o": {"x": 1}, "nothing": [None]}


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("n ==", "it ends too early"),
        ("(n", 'it ends where ")" should stand'),
        ("n |", "it ends where a name should stand"),
        ("n n", '"n" is not expected there'),
        ("?n", '"?" has no meaning there'),
        ("'abc", "the text that begins with ' does not end"),
        ("n.", 'a name is missing after "."'),
        ("[n for n in two]", '"for" stands where "," should'),
        ("n | upercase", 'there is no filter "upercase"'),
        ("n is big", 'there is no test "big"'),
    ],
)
def test_an_expression_that_cannot_be_read(expression: str, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        evaluate(expression, Context(KEYS))
    assert caught.value.message == f"The expression `{expression.strip()}` is not valid: {reason}."


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("10 / 0", "failed: it divides by zero"),
        ("10 // (k - 3)", "failed with k = 3: it divides by zero"),
        ("10 % (k - 3)", "failed with k = 3: it divides by zero"),
        ("missing", 'failed: there is no key "missing"'),
        (
            "n + 1",
            (
                'failed with n = "abc": "+" does not work with a text and a number; '
                "use the filter int or float, or join texts with ~"
            ),
        ),
        (
            "k + n",
            'failed with k = 3, n = "abc": "+" does not work with a number and a text; use the filter int or float',
        ),
        ("two + 1", 'failed with two = 2 values: "+" does not work with a list and a number'),
        ("nothing - 1", 'failed with nothing = null: "-" does not work with nothing and a number'),
        (
            "n > k",
            'failed with k = 3, n = "abc": ">" cannot compare a text with a number; use the filter int or float',
        ),
        ("-n", 'failed with n = "abc": "-" does not work with a text'),
        ("n | abs", 'failed with n = "abc": "abs" does not work with a text'),
        ("k in n", 'failed with k = 3, n = "abc": "in" cannot look for a number in a text'),
        ("1 in k", "failed with k = 3: a number is no list"),
        ("k | join", "failed with k = 3: a number is no list"),
        ("k | length", "failed with k = 3: a number has no length"),
        ("n()", 'failed with n = "abc": a text cannot be called'),
        ("n.foo", 'failed with n = "abc": a text has no member "foo"'),
        ("o.y", 'failed with o = {"x": 1}: an object has no member "y"'),
        ("two[5]", 'failed with two = 2 values: a list has no entry "5"'),
        ("n.__class__", 'failed with n = "abc": "__class__" of a text cannot be used'),
        ("all.none | max", "failed with none = no value: the list is empty"),
        ("all.none | first + 'x'", "failed with none = no value: the list is empty"),
        ("range(1000000) | list", "failed: a range has at most 100,000 numbers"),
        ("n.upper(1)", 'failed with n = "abc": "upper" is given too few, too many or unknown arguments'),
        ("n | replace('a')", 'failed with n = "abc": "replace" is given too few, too many or unknown arguments'),
        ("'%d' | format(n)", 'failed with n = "abc": the format %d needs a number, found a text'),
        ("'%s %s' | format(n)", 'failed with n = "abc": the format has more places than there are values'),
    ],
)
def test_an_expression_that_fails_shows_what_it_was_given(expression: str, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        evaluate(expression, Context(KEYS))
    assert caught.value.message == f"The expression `{expression}` {reason}."


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% for %}", 'is not valid: a value is missing before "%}"'),
        ("{% for x in two %}", 'is not valid: the block "for" does not end'),
        ("{% if n %}{% endfor %}", 'is not valid: "endfor" stands where the block "if" has to end'),
        ("{% endif %}", 'is not valid: "endif" ends no block'),
        ("{% shout %}", 'is not valid: there is no tag "shout"'),
        ("{{ n", 'is not valid: it ends where "}}" should stand'),
        ("{% include 'x' %}", "failed: a template cannot read another one"),
        ("{{ n.x }}", 'failed: a text has no member "x"'),
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "failed: it is nested too deeply"),
    ],
)
def test_a_template(template: str, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(template, Context(KEYS))
    assert caught.value.message == f"The template `{template}` {reason}."


def test_long_values_are_shortened_and_many_counted() -> None:
    context = Context({"a": "x" * 1000, "b": {"y": "z" * 1000}, "c": list(range(5000)), "d": 1, "e": 2})
    with pytest.raises(TemplateError) as caught:
        evaluate("a ~ b ~ c ~ d ~ e ~ 1 / 0", context)
    start = "The expression `a ~ b ~ c ~ d ~ e ~ 1 / 0` failed with a = "
    assert caught.value.message == (
        f'{start}"{"x" * 39}…", b = {{"y": "{"z" * 32}…, c = 5,000 values and 2 more: it divides by zero.'
    )


@given(st.text(alphabet="nkot{}()[]|.,'\"%+-*/<>=~! 0123456789_abcdefilrs", max_size=12))
def test_no_words_of_python_reach_the_reader(source: str) -> None:
    keys = Context(KEYS)
    for attempt in (evaluate, render):
        try:
            attempt(source, keys)
        except TemplateError as error:
            reason = error.message.partition("`: " if "` failed: " not in error.message else "` failed: ")[2]
            assert not re.search(r"NoneType|'(str|int|float|list|dict)'|object has no|end of template|Jinja", reason)


def test_what_has_no_words_of_its_own_is_told_as_it_is() -> None:
    assert reason_of(ValueError("something new.")) == "something new"
    assert reason_of(ValueError()) == "ValueError"
