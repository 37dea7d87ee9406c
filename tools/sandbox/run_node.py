"""run_node."""

from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.sandbox.outcome import SandboxResult, SourceCode, deadline, run_code
from toolbox_mcp.tools.services import Sandbox


@tool(Access.EXEC, deadline=lambda settings, given: deadline(settings))
async def run_node(sandbox: Sandbox, code: SourceCode) -> SandboxResult:
    """Run a JavaScript program with Node.js in a sandbox and return what it prints.

    No network, no project files, no npm packages, no state between calls; /tmp is writable, and images left there
    come back.
    """
    return await run_code(sandbox, "node", code)
