"""Tools that come with the workbench; they compute, and touch nothing."""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Final

from engine.conversation import ToolDefinition
from engine.flow.tools import Tool

_LONGEST = 200
"""Characters of a calculation."""
_LARGEST_POWER_BITS = 4096
_SIGNS: Final = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-"})
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")

_OPERATIONS: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def calculate(expression: str) -> str:
    """Work out a sum of numbers, `12 * (3 + 4)` for instance; raises ValueError with the reason."""
    if len(expression) > _LONGEST:
        raise ValueError(f"the calculation has {len(expression)} characters, expected at most {_LONGEST}")
    source = expression.strip().rstrip("=").strip()
    try:
        tree = ast.parse(_THOUSANDS.sub("", source.translate(_SIGNS)).replace("^", "**"), mode="eval")
        value = _value(tree.body)
    except SyntaxError:
        raise ValueError(f"{source!r} is no calculation; expected numbers, + - * / ** and brackets") from None
    except ZeroDivisionError:
        raise ValueError(f"{source} divides by zero") from None
    except (OverflowError, RecursionError, MemoryError):
        raise ValueError(f"{source} is too large") from None
    return f"{source} = {_number_text(value)}"


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(left), _value(right))
    raise ValueError(f"{ast.unparse(node)[:40]!r} cannot be calculated; expected numbers, + - * / ** and brackets")


def _power(base: float, exponent: float) -> float:
    if isinstance(base, int) and isinstance(exponent, int) and exponent * base.bit_length() > _LARGEST_POWER_BITS:
        raise OverflowError
    value = base**exponent
    if isinstance(value, complex):
        raise ValueError("the root of a negative number is no number")
    return float(value) if isinstance(value, float) else int(value)


def _number_text(value: float) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return repr(round(value, 12))
    return str(value)


CALCULATOR: Final = Tool(
    definition=ToolDefinition(
        name="calculator",
        description="Calculates with numbers. Use it for every calculation.",
        parameters={
            "type": "object",
            "properties": {
                "expression": {"type": "string", "description": "The calculation, for example 12 * (3 + 4)"}
            },
            "required": ["expression"],
            "additionalProperties": False,
        },
    ),
    function=calculate,
    timeout=5.0,
)
