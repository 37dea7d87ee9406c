from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each_row
from toolbox_mcp.tools.util._arithmetic import evaluate, shown


@each_row(
    ("expression", "value"),
    [
        ("1 + 1", "2"),
        ("2**3**2", "512"),
        ("-2**2", "-4"),
        ("(-2)**2", "4"),
        ("2**-1", "0.5"),
        ("7/2", "3.5"),
        ("6/2", "3"),
        ("-7 % 3", "2"),
        ("7 % -3", "-2"),
        ("5.5 % 2", "1.5"),
        ("0.1 + 0.2", "0.3"),
        ("1e3", "1000"),
        (".5 * 4", "2"),
        ("sqrt(16)", "4"),
        ("sqrt(2)", "1.4142135623731"),
        ("abs(-3)", "3"),
        ("floor(-1.5)", "-2"),
        ("ceil(1.2)", "2"),
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("round(2.345, 2)", "2.35"),
        ("ln(e)", "1"),
        ("log10(1000)", "3"),
        ("exp(0)", "1"),
        ("cos(pi)", "-1"),
        ("2**4095", str(2**4095)),
        ("10**400 / 10**399", "10"),
        ("-0.0", "0"),
        ("0**0", "1"),
        ("1**10000000", "1"),
        ("(-1)**99999999999", "-1"),
        ("((((1))))", "1"),
        ("+5", "5"),
        ("12345678901234567890 * 98765432109876543210", str(12345678901234567890 * 98765432109876543210)),
    ],
)
async def test_computes(call, expression, value):
    assert await call("calculator", expression=expression) == f"= {value}"


@each_row(
    "expression",
    [
        "", "   ", "1 +", "(1", "1)", "1 1", "2 ** 4097", "9**9**9**9", "2**4096 * 2**4096", "1/0", "1 % 0", "0 ** -1",
        "sqrt(-1)", "ln(0)", "(-8) ** 0.5", "exp(1e9)", "1e400", "10**1000 * 1.5", "__import__('os')", "abs", "abs()",
        "'a'", "a.b", "1 if 1 else 2", "x = 1", "1 << 2", "0x10", "1_000", "factorial(5)", "(" * 101 + "1" + ")" * 101,
        "-" * 101 + "1", "1+" * 500 + "1", "round(1, 99)", "lambda: 1", "1, 2", "\x00", "¼", "2^3", "1 // 2",
    ],
)  # fmt: skip
async def test_refuses_what_is_no_bounded_arithmetic(call, expression):
    assert await call.code("calculator", expression=expression) == "bad_expression"


leaves = st.integers(0, 10**6).map(lambda number: (str(number), Fraction(number)))


def _joined(operator, left, right):
    a, b = left[1], right[1]
    value = {"+": a + b, "-": a - b, "*": a * b, "%": a % b if b else None}[operator]
    return (f"({left[0]} {operator} {right[0]})", value)


expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*%"), inner, inner)
        .filter(lambda given: given[0] != "%" or given[2][1] != 0)
        .map(lambda given: _joined(*given)),
        inner.map(lambda given: (f"-{given[0]}", -given[1])),
        st.tuples(inner, st.integers(0, 4)).map(
            lambda given: (f"({given[0][0]})**{given[1]}", given[0][1] ** given[1])
        ),
    ),
    max_leaves=8,
)


@given(given=expressions)
def test_integers_are_exact(given):
    expression, value = given
    if len(expression) <= 1000 and abs(value).numerator.bit_length() < 1000:
        assert evaluate(expression) == value
        assert shown(evaluate(expression)) == str(value)


@given(a=st.integers(-(10**9), 10**9), b=st.integers(1, 10**9))
def test_division_is_exact_where_it_comes_out_even_and_else_the_nearest_float(a, b):
    value = evaluate(f"({a}) / {b}")
    assert value == (a // b if a % b == 0 else a / b)
