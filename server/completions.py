"""Values that a client can offer while a person types an argument of a prompt or of a resource's address."""

from collections.abc import Sequence
from dataclasses import dataclass

import mcp_types as t
from anyio import to_thread

from ..safety.errors import ToolError
from ..safety.path_jail.roots import Roots
from ..safety.path_jail.tree_walk import Walk
from ..safety.text import visible_name
from ..sandbox.git import GitReads
from ..sandbox.processes import Processes
from .prompts import FRAMEWORKS
from .records.recorder import Records
from .resources import executions

MAX_VALUES = 100
"""Values of an answer (TOOLS.md §10)."""
MAX_ENTRIES = 5_000
SECONDS = 1.0
"""What a walk for paths may look at and take: a person is typing; a guess."""


@dataclass(frozen=True)
class Completions:
    """Where the values come from. None for what this server does not show."""

    processes: Processes
    roots: Roots | None = None
    git: GitReads | None = None
    records: Records | None = None

    async def of(self, owner: str, ref: object, name: str, typed: str) -> t.CompleteResult:
        """Return the values for an argument of a prompt, or of a resource template, that begin as typed."""
        if isinstance(ref, t.PromptReference):
            values = await self._of_prompt(name, typed)
        else:
            values = await self._of_resource(owner, name, typed)
        return t.CompleteResult(
            completion=t.Completion(values=values[:MAX_VALUES], total=len(values), has_more=len(values) > MAX_VALUES)
        )

    async def _of_prompt(self, name: str, typed: str) -> list[str]:
        match name:
            case "ref":
                return _begin(await self._refs(), typed)
            case "path":
                return await self._paths(typed)
            case "framework":
                return _begin(FRAMEWORKS, typed)
        return []

    async def _of_resource(self, owner: str, name: str, typed: str) -> list[str]:
        match name:
            case "call_id":
                calls = await executions.newest(self.records, owner) if self.records else []
                return _begin([call.call_id for call in calls], typed)
            case "id":
                return _begin([process.id for process in self.processes.of(owner).list()], typed)
            case "stream":
                return _begin(["stdout", "stderr"], typed)
            case "path":
                return await self._paths(typed)
        return []

    async def _refs(self) -> list[str]:
        if self.git is None or self.roots is None:
            return []
        try:
            at = await self.git.repository(self.roots.place("."))
            done = await self.git.run(at, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags")
        except ToolError:
            return []
        return done.text.split("\n")

    async def _paths(self, typed: str) -> list[str]:
        """Return the entries of the folder that is typed so far, folders with `/`."""
        if self.roots is None:
            return []
        folder, _, begin = typed.rpartition("/")
        roots = self.roots

        def entries() -> list[str]:
            try:
                walk = Walk(
                    roots.place(folder or "."),
                    gitignore=True,
                    hidden=begin.startswith("."),
                    max_depth=1,
                    max_entries=MAX_ENTRIES,
                    max_seconds=SECONDS,
                )
                found = [entry.path + ("/" if entry.kind == "dir" else "") for entry in walk]
            except ToolError:
                return []
            above = f"{folder}/" if folder else ""
            return [above + path for path in found if path.startswith(begin) and visible_name(path) == path]

        return await to_thread.run_sync(entries)


def _begin(values: Sequence[str], typed: str) -> list[str]:
    return [value for value in values if value and value.startswith(typed)]
