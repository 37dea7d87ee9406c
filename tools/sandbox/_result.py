"""How a sandboxed program ended, with the images it left."""

import re
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

_LAST = 1000
"""Characters at the end of an error that are looked at."""

_LACKS = {
    r"Address family not supported|Name or service not known|[Nn]ame resolution|Network is unreachable|EAI_AGAIN|ENETUNREACH|"
    r"Failed to open TCP connection": "there is no network here",
    r"\bMemoryError\b|heap out of memory|Array buffer allocation failed|failed to allocate memory|memory allocation of": (
        "the description says how much memory there is"
    ),
    r"FileNotFoundError|ENOENT": "files of the project are not here; bash and run_script see them",
    r"ModuleNotFoundError|MODULE_NOT_FOUND": "packages of the project are not here; bash and run_script see them",
}
"""What an error says, and what the sandbox lacks."""

_LIBRARY = re.compile(
    r"((?:^  File \"[^\"\n]*/lib/python3[^\"\n]*\", line [^\n]*\n(?:    [^\n]*\n)*){2,})"
    r"(?=^  File \"[^\"\n]*/lib/python3[^\"\n]*\", line )",
    re.MULTILINE,
)

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
        """Return the exec form, why the sandbox may have made the program fail, and what it left in /tmp."""
        parts = [super().rendered()]
        if self.exit_code and (why := _why(self.stderr)):
            parts.append(f"({why})")
        if self._files:
            rows = [f"{visible_name(file.name)} ({file.size} bytes)" for file in self._files]
            parts += ["--- files ---", *rows]
        return "\n".join(parts)

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


def _why(stderr: str) -> str | None:
    """Return what the sandbox lacks that the last lines of an error are about."""
    end = stderr[-_LAST:]
    return next((sentence for pattern, sentence in _LACKS.items() if re.search(pattern, end)), None)


def _without_library_frames(text: str) -> str:
    """Return tracebacks of Python without the frames of its library but the last of each run."""
    return _LIBRARY.sub(lambda found: f"  ... {found[1].count('  File ')} frames of the library\n", text)


async def run_code(sandbox: Sandbox, worker: Worker, language: str, code: str) -> SandboxResult:
    """Run a program and describe its end. Raises ToolError, also where the program is too long."""
    if len(code.encode("utf-8", "surrogatepass")) > LARGEST_CODE:
        raise ToolError(
            Code.TOO_LARGE,
            "the program is longer than 1 MiB",
            "no files come with it; bash can work on those of the project",
        )
    done = await sandbox.run_code(language, code)
    if language == "python":
        stderr = done.finished.stderr
        stderr = replace(stderr, text=_without_library_frames(stderr.text))
        done = replace(done, finished=replace(done.finished, stderr=stderr))
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
