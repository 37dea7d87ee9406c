"""calculator."""

from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.results import Text
from toolbox_mcp.tools.util.arithmetic import evaluate, shown


@tool(Access.READ)
def calculator(
    expression: str,
) -> Text:
    """Compute with + - * / % **, ( ), sqrt abs sin cos tan ln log10 exp floor ceil round, pi, e."""
    return Text(shown(evaluate(expression)))
