"""calculator."""

from ..base import Access, tool
from ..results import Text
from ._arithmetic import evaluate, shown


@tool(Access.READ)
def calculator(
    expression: str,
) -> Text:
    """Compute with + - * / % **, ( ), sqrt abs sin cos tan ln log10 exp floor ceil round, pi, e."""
    # A bare number would be JSON that is no object, which some clients refuse.
    return Text(f"= {shown(evaluate(expression))}")
