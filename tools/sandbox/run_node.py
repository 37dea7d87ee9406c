"""run_node."""

from ..base import Access, tool
from ..services import Parser, Sandbox
from ._result import SandboxResult, SourceCode, deadline, run_code


@tool(Access.EXEC, deadline=lambda settings, given: deadline(settings))
async def run_node(sandbox: Sandbox, parser: Parser, code: SourceCode) -> SandboxResult:
    """Run a JavaScript program with Node.js in a sandbox and return what it prints.

    No network, no project files, no npm packages, no state between calls; /tmp is writable, and images left there
    come back.
    """
    return await run_code(sandbox, parser, "node", code)
