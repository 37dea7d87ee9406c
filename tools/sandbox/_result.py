"""How a sandboxed program ended, with the images it left."""

from base64 import b64encode
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self

from mcp_types import ImageContent
from pydantic import Field, PrivateAttr

from ...safety.errors import Code, ToolError
from ...safety.text import visible_name
from ...sandbox.isolate.worker import Worker, WorkerFailure
from ...sandbox.service import QUALIFYING, Sandbox
from ...sandbox.spec import LeftFile
from ..exec_result import ExecResult
from ..read._images import is_readable
from ..results import Answer, Budget
from ..settings import ToolSettings

LARGEST_CODE = 1 << 20
"""Bytes of a program."""

_IMAGE_SECONDS = 5.0  # for decoding one image; a guess

SourceCode = Annotated[str, Field(description="the whole program")]


class SandboxResult(ExecResult):
    """The exec fields, and where the program ran. degraded_reasons: what that does not contain."""

    # Of the files that it writes only images come back.
    rest: ClassVar[str] = "have the program print less"
    holds_images: ClassVar[bool] = True
    runtime: str
    degraded: bool
    degraded_reasons: list[str]
    _files: tuple[LeftFile, ...] = PrivateAttr(default=())

    def first_line(self) -> str:
        """Return the first line: how the program ended, and what the sandbox lacks."""
        line = super().first_line().replace("(killed)", "(sandbox killed)")
        return f"{line} [degraded: {'; '.join(self.degraded_reasons)}]" if self.degraded else line

    def rendered(self) -> str:
        """Return the exec form, and what the program left in /tmp."""
        if not self._files:
            return super().rendered()
        rows = [f"{visible_name(file.name)} ({file.size} bytes)" for file in self._files]
        return "\n".join([super().rendered(), "--- files ---", *rows])

    @property
    def size(self) -> int:
        """Return the characters of the streams, the file names, and room for the form around them."""
        return super().size + sum(len(file.name) + 40 for file in self._files)

    def within(self, budget: Budget) -> tuple[Self, dict[str, Any]]:
        """Return the result with its streams cut to the budget."""
        fitted, meta = super().within(budget)
        fitted._files = self._files
        return fitted, meta

    def fit(self, budget: Budget) -> Answer:
        """Return the form, the fields, and a block for each image."""
        answer = super().fit(budget)
        images = [
            ImageContent(type="image", data=b64encode(file.data).decode(), mime_type=file.mime)
            for file in self._files
            if file.data is not None and file.mime is not None
        ]
        return Answer([*answer.content, *images], answer.structured, answer.meta, answer.tokens)


async def run_code(sandbox: Sandbox, worker: Worker, language: str, code: str) -> SandboxResult:
    """Run a program and describe its end. Raises ToolError, also where the program is too long."""
    if len(code.encode("utf-8", "surrogatepass")) > LARGEST_CODE:
        raise ToolError(
            Code.TOO_LARGE,
            "the program is longer than 1 MiB",
            "no files come with it; bash can work on those of the project",
        )
    done = await sandbox.run_code(language, code)
    result = SandboxResult.of(
        done.finished, runtime=done.runtime, degraded=done.degraded, degraded_reasons=list(done.reasons)
    )
    result._files = tuple([await _checked(worker, file) for file in done.files])
    return result


async def _checked(worker: Worker, file: LeftFile) -> LeftFile:
    """Return a file without its bytes where they only begin as an image does."""
    if file.data is None:
        return file
    try:
        readable = await worker.call(is_readable, file.data, deadline=_IMAGE_SECONDS)
    except WorkerFailure:
        readable = False
    return file if readable else replace(file, data=None, mime=None)


def deadline(settings: ToolSettings, steps: int = 1) -> float:
    """Return the call deadline of a tool with so many sandboxed steps."""
    return steps * (settings.command_timeout + 5) + QUALIFYING
