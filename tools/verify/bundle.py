"""bundle."""

import re
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ..base import Access, tool
from ..results import Text
from ..services import Settings, Toolchains
from ._run import Project, report

ACTIONS = ("install", "update", "outdated", "check", "lock", "add")
WITH_GEM = ("update", "outdated", "add")


@tool(Access.EXEC, deadline=lambda settings, given: settings.toolchain_timeout + 5)
async def bundle(
    toolchains: Toolchains,
    settings: Settings,
    action: Annotated[str, Field(description="install, update, outdated, check, lock or add")],
    gem: str | None = None,
) -> Text:
    """Run Bundler on the project's Gemfile."""
    if action not in ACTIONS:
        raise ToolError(Code.BAD_ACTION, f"{action} is not an action", f"one of {', '.join(ACTIONS)}")
    if not Project(toolchains.cwd).has("Gemfile"):
        raise ToolError(Code.NO_GEMFILE, "the base folder has no Gemfile")
    if gem is not None and not re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*", gem):
        raise ToolError(Code.BAD_GEM, f"{gem!r} is not the name of a gem")
    if (gem is None and action == "add") or (gem is not None and action not in WITH_GEM):
        raise ToolError(Code.BAD_GEM, "add needs a gem" if gem is None else f"{action} takes no gem")
    argv = ["bundle", action, *([gem] if gem else [])]
    done = await toolchains.run(argv, timeout=settings.toolchain_timeout)
    return report(f"BUNDLE {'FAILED' if done.exit_code else 'OK'}: {action}", argv, done, more=None)
