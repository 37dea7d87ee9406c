"""run_python."""

from ..base import Access, tool
from ..services import Parser, Sandbox
from ._result import SandboxResult, SourceCode, deadline, run_code


@tool(Access.EXEC, deadline=lambda settings, given: deadline(settings))
async def run_python(sandbox: Sandbox, parser: Parser, code: SourceCode) -> SandboxResult:
    """Run a Python program in a sandbox and return what it prints.

    No network, no project files, no state between calls; /tmp is writable. Images left there come back:
    save a plot with savefig. To work with project files use bash or process_start.
    """
    return await run_code(sandbox, parser, "python", code)
