"""Parameter types for paths. The handler gets a JailedPath that has been judged; what it opens is judged again."""

from typing import Annotated

from .errors import Code, ToolError
from .guard import Guard, GuardContext
from .path_jail.roots import JailedPath
from .text import visible_name

MAX_PATHS = 20
"""Paths that one argument may hold."""


def _guard(*, follow: bool = True, write: bool = False, liftable: bool = False) -> Guard:
    def judge(raw: str, judging: GuardContext, unconfined: bool) -> JailedPath:
        place = judging.policy.roots.place(raw, follow=follow, unconfined=unconfined)
        if write:
            place.check_writable()
            return place
        return place.with_status()

    def check(raw: str, judging: GuardContext) -> JailedPath:
        try:
            return judge(raw, judging, unconfined=False)
        except ToolError as refused:
            if not (liftable and judging.unsafe and refused.code is Code.PATH_DENIED):
                raise
            # What is refused without confinement too (malformed, no permission) is not an override.
            place = judge(raw, judging, unconfined=True)
            judging.override(f"path {place.shown}")
            return place

    return Guard(check)


ProjectPath = Annotated[JailedPath, _guard()]
"""Anything inside the roots, existing or not. Links are followed while they stay inside."""

WritePath = Annotated[JailedPath, _guard(write=True)]
"""A place to write to: inside the roots, and nothing that is protected."""

EntryPath = Annotated[JailedPath, _guard(follow=False)]
"""An entry inside the roots: where it is a link, the link itself."""

WriteEntry = Annotated[JailedPath, _guard(follow=False, write=True)]
"""An entry to move or remove: a link itself, and nothing that is protected."""


def _free(raw: str, judging: GuardContext) -> JailedPath:
    try:
        place = judging.policy.roots.place(raw, unconfined=judging.policy.free_paths)
        place.stat()
    except ToolError as refused:
        if refused.code is not Code.PATH_DENIED:
            raise
        message = f"{visible_name(raw)[:500]} is outside allowed directories"
        raise ToolError(Code.PATH_DENIED, message) from None
    return place


FreePath = Annotated[JailedPath, Guard(_free)]
"""Anything inside the roots, and anywhere where the policy has free_paths. What is written is judged again when it is."""

UnsafePath = Annotated[JailedPath, _guard(liftable=True)]
"""As ProjectPath, and anywhere once the operator granted `unsafe`."""

UnsafeWritePath = Annotated[JailedPath, _guard(write=True, liftable=True)]
"""As WritePath, and anywhere once the operator granted `unsafe`; protected places stay so."""


def _each(raw: list[str], judging: GuardContext) -> tuple[tuple[str, JailedPath | ToolError], ...]:
    """Return each path with its place, or with the refusal."""
    if len(raw) > MAX_PATHS:
        raise ToolError(Code.INVALID_ARGS, f"paths: expected at most {MAX_PATHS}")
    guard = _guard(liftable=True)
    out: list[tuple[str, JailedPath | ToolError]] = []
    for path in raw:
        try:
            out.append((visible_name(path), guard.check(path, judging)))
        except ToolError as refused:
            out.append((visible_name(path), refused))
    return tuple(out)


UnsafePaths = Annotated[tuple[tuple[str, JailedPath | ToolError], ...], Guard(_each, accepts=list[str])]
"""Several paths, each judged as UnsafePath; what is refused stands in its place."""
