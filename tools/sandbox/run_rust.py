"""run_rust."""

from ..base import Access, tool
from ..services import Parser, Sandbox
from ._result import SandboxResult, SourceCode, deadline, run_code


@tool(Access.EXEC, deadline=lambda settings, given: deadline(settings, 2))
async def run_rust(sandbox: Sandbox, parser: Parser, code: SourceCode) -> SandboxResult:
    """Compile a Rust program (edition 2021, standard library only) and run it in a sandbox.

    Returns what it prints; messages of the compiler are in stderr. No network, no project files, no state between
    calls.
    """
    return await run_code(sandbox, parser, "rust", code)
