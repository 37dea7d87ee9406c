"""Parameter types for paths. The handler gets a Place that has been judged; what it opens is judged again."""

from typing import Annotated

from .errors import Code, ToolError
from .guard import Guard, Judging
from .path_jail.roots import Place


def _guard(*, follow: bool = True, write: bool = False, liftable: bool = False) -> Guard:
    def judge(raw: str, judging: Judging, unconfined: bool) -> Place:
        place = judging.policy.roots.place(raw, follow=follow, unconfined=unconfined)
        if write:
            place.check_writable()
            return place
        return place.looked_at()

    def check(raw: str, judging: Judging) -> Place:
        try:
            return judge(raw, judging, unconfined=False)
        except ToolError as refused:
            if not (liftable and judging.unsafe and refused.code is Code.PATH_DENIED):
                raise
            # What is refused without confinement too (malformed, no permission) is not an override.
            place = judge(raw, judging, unconfined=True)
            judging.lift(f"path {place.shown}")
            return place

    return Guard(check)


ProjectPath = Annotated[Place, _guard()]
"""Anything inside the roots, existing or not. Links are followed while they stay inside."""

WritePath = Annotated[Place, _guard(write=True)]
"""A place to write to: inside the roots, and nothing that is protected."""

EntryPath = Annotated[Place, _guard(follow=False)]
"""An entry inside the roots: where it is a link, the link itself."""

WriteEntry = Annotated[Place, _guard(follow=False, write=True)]
"""An entry to move or remove: a link itself, and nothing that is protected."""

UnsafePath = Annotated[Place, _guard(liftable=True)]
"""As ProjectPath, and anywhere once the operator granted `unsafe`."""

UnsafeWritePath = Annotated[Place, _guard(write=True, liftable=True)]
"""As WritePath, and anywhere once the operator granted `unsafe`; protected places stay so."""
