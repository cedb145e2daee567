"""What the process does that evaluates the expressions and templates of flows from elsewhere."""

from engine.code_child import Answer, Refused, serve
from engine.flow import compiler
from engine.flow.evaluation_faults import reason_of


def main() -> None:
    """Answer until the parent is gone."""
    serve(_started)


def _started(_: object) -> Answer:
    return _evaluated


def _evaluated(request: object) -> object:
    """The value of an expression, or the parts of a template: a text, or key and whether it is hidden for a slot."""
    assert isinstance(request, dict)  # noqa: S101
    source, scope = str(request["source"]), dict(request["scope"])
    try:
        if request["kind"] == "expression":
            return compiler.compile_expression(source)(scope)
        parts = compiler.compile_template(source)(scope)
    except MemoryError:
        raise
    except Exception as error:
        raise Refused("raised", reason_of(error)) from None
    return [part if isinstance(part, str) else [part.key, part.hidden] for part in parts]
