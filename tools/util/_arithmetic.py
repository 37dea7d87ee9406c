"""Arithmetic on text: a small parser whose work is bounded before it computes."""

import math
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal, localcontext
from types import MappingProxyType

from ...safety.errors import Code, ToolError

MAX_CHARACTERS = 1000
MAX_DEPTH = 100
MAX_BITS = 4096
"""Size of the largest exact integer. The three bounds are TOOLS.md §4.11's."""

Number = int | float

TOKEN = re.compile(
    r"[ \t\r\n]*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|[-+*/%(),]))", re.ASCII
)
"""A number, a name, or an operator, behind white space."""

CONSTANTS: Mapping[str, float] = MappingProxyType({"pi": math.pi, "e": math.e})


def evaluate(expression: str) -> Number:
    """Return the value of an expression, or raise ToolError bad_expression.

    `**` binds to the right and above unary minus; `/` divides truly and gives an integer where it comes out
    even; `%` has the divisor's sign; round goes half away from zero.
    """
    if len(expression) > MAX_CHARACTERS:
        raise _bad(f"longer than {MAX_CHARACTERS} characters")
    return _Parser(_tokens(expression)).parse()


def shown(value: Number) -> str:
    """Return a value as text: integers whole, floats with 15 digits."""
    if isinstance(value, int):
        return str(value)
    return "0" if value == 0 else f"{value:.15g}"


def _tokens(expression: str) -> list[str]:
    tokens, at = [], 0
    rest = len(expression.rstrip())
    while at < rest:
        match = TOKEN.match(expression, at)
        if not match:
            raise _bad(f"unexpected {expression[at:].strip()[:1]!r}")
        tokens.append(match[0].strip())
        at = match.end()
    if not tokens:
        raise _bad("nothing to compute")
    return tokens


class _Parser:
    """Recursive descent over the tokens; the depth of nesting is counted."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def parse(self) -> Number:
        value = self._sum()
        if self._at < len(self._tokens):
            raise _bad(f"unexpected {self._tokens[self._at]!r}")
        return value

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        token = self._peek()
        if token not in wanted or not token:
            return ""
        self._at += 1
        return token

    def _sum(self) -> Number:
        value = self._product()
        while operator := self._take("+", "-"):
            right = self._product()
            value = _checked(value + right if operator == "+" else value - right)
        return value

    def _product(self) -> Number:
        value = self._signed()
        while operator := self._take("*", "/", "%"):
            right = self._signed()
            value = _OPERATIONS[operator](value, right)
        return value

    def _signed(self) -> Number:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _bad(f"nested deeper than {MAX_DEPTH}")
        try:
            if sign := self._take("+", "-"):
                value = self._signed()
                return -value if sign == "-" else value
            base = self._atom()
            return _power(base, self._signed()) if self._take("**") else base
        finally:
            self._depth -= 1

    def _atom(self) -> Number:
        token = self._peek()
        self._at += 1
        if token == "(":  # noqa: S105 - a token of an expression
            value = self._sum()
            self._close()
            return value
        if token[:1].isdigit() or token[:1] == ".":
            return _number(token)
        if token in CONSTANTS:
            return CONSTANTS[token]
        if token in FUNCTIONS:
            return self._call(token)
        raise _bad(f"unexpected {token!r}" if token else "it ends too early")

    def _call(self, name: str) -> Number:
        if not self._take("("):
            raise _bad(f"{name} needs parentheses")
        value = self._sum()
        if name == "round" and self._take(","):
            value = _round(value, self._sum())
            self._close()
            return value
        self._close()
        try:
            return _checked(FUNCTIONS[name](value))
        except (ValueError, OverflowError):
            raise _bad(f"{name} of {shown(value)[:40]} has no value") from None

    def _close(self) -> None:
        if not self._take(")"):
            raise _bad("a ) is missing")


def _number(token: str) -> Number:
    return _checked(int(token) if token.isdigit() else float(token))


def _checked(value: Number) -> Number:
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise _bad(f"an integer above {MAX_BITS} bits")
    elif not math.isfinite(value):
        raise _bad("the value is too large")
    return value


def _times(a: Number, b: Number) -> Number:
    return _checked(_floating(lambda: a * b))


def _divided(a: Number, b: Number) -> Number:
    if b == 0:
        raise _bad("division by zero")
    if isinstance(a, int) and isinstance(b, int) and a % b == 0:
        return a // b
    return _checked(_floating(lambda: a / b))


def _modulo(a: Number, b: Number) -> Number:
    if b == 0:
        raise _bad("division by zero")
    return _checked(_floating(lambda: a % b))


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        # |base| >= 2 gains at least bit_length - 1 bits with each factor.
        if abs(base) > 1 and (abs(base).bit_length() - 1) * exponent > MAX_BITS:
            raise _bad(f"an integer above {MAX_BITS} bits")
        return _checked(base ** (exponent if abs(base) > 1 else min(exponent, 2 + exponent % 2)))
    if base == 0 and exponent < 0:
        raise _bad("division by zero")
    if base < 0 and not float(exponent).is_integer():
        raise _bad("a root of a negative number")
    return _checked(_floating(lambda: float(base) ** float(exponent)))


def _floating(compute: Callable[[], Number]) -> Number:
    try:
        return compute()
    except OverflowError:
        raise _bad("the value is too large") from None


def _round(value: Number, digits: Number = 0) -> Number:
    if not isinstance(digits, int) or abs(digits) > 15:
        raise _bad("round takes -15 to 15 digits")
    if isinstance(value, int) and digits >= 0:
        return value
    with localcontext() as context:
        context.prec = 2 * MAX_BITS
        rounded = Decimal(value).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
        return int(rounded) if digits <= 0 else float(rounded)


_OPERATIONS: Mapping[str, Callable[[Number, Number], Number]] = MappingProxyType(
    {"*": _times, "/": _divided, "%": _modulo}
)

FUNCTIONS: Mapping[str, Callable[[Number], Number]] = MappingProxyType(
    {
        "sqrt": math.sqrt,
        "abs": abs,
        "sin": math.sin,
        "cos": math.cos,
        "tan": math.tan,
        "ln": math.log,
        "log10": math.log10,
        "exp": math.exp,
        "floor": math.floor,
        "ceil": math.ceil,
        "round": _round,
    }
)


def _bad(why: str) -> ToolError:
    return ToolError(
        Code.BAD_EXPRESSION,
        f"the expression cannot be computed: {why}",
        "use numbers, + - * / % **, ( ), pi, e and the listed functions",
    )
