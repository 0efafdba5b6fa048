"""Formulas of the ledger: arithmetic, comparisons and calls of named functions, nothing else."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from ....base.errors import InputError

OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.USub: operator.neg, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
PLACEHOLDER = re.compile(r"\{(.+?)(?::(\.\d+f))?\}")


def value(formula: str, names: Mapping[str, Any]) -> Any:
    """What a formula gives; ``names`` are the functions and values that it may use."""
    try:
        return _value(ast.parse(formula, mode="eval").body, names)
    except SyntaxError as error:
        raise InputError(f"{formula!r} is no formula") from error


def _value(node: ast.AST, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() | str() as constant):
            return constant
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=op, operand=x) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(x, names))
        case ast.BinOp(left=a, op=op, right=b) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(a, names), _value(b, names))
        case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(a, names), _value(b, names))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in names:
            return names[name](*(_value(x, names) for x in args))
    raise InputError(f"{ast.unparse(node)!r} cannot stand in a formula")


def filled(template: str, names: Mapping[str, Any]) -> str:
    """A text with the values of the formulas in its braces: ``{draws():.0f} draws``."""

    def replaced(found: re.Match[str]) -> str:
        return format(value(found[1], names), found[2] or "")

    return PLACEHOLDER.sub(replaced, template)
