"""Taking back what a call did: first every file is looked at, then all is changed or nothing."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from ...safety.errors import Code, ToolError
from ...safety.os_errors import refusal
from ...safety.path_jail.roots import JailedPath
from ...safety.writes import fs_ops as entries
from ...safety.writes.batch import Change, change_all
from .changes import Content, Made, Moved, Put, Step, touched
from .journal import MAX_CALLS, Entry, History, Journal, content_after, current, made

_NAMED = 3
"""Changed files, or changes to undo first, that a row of the list names."""

Contents = dict[Path, Content | None]
Changed = dict[Path, JailedPath]
"""Places that are not as a change left them."""


@dataclass
class Reverted:
    """What undo did. files: what each file holds that it wrote or removed. moves: paths from and to.

    left: files of the change that somebody has changed since.
    """

    entry: Entry
    restored: list[JailedPath] = field(default_factory=list)
    removed: list[JailedPath] = field(default_factory=list)
    left: list[JailedPath] = field(default_factory=list)
    files: Contents = field(default_factory=dict)
    moves: list[tuple[Path, Path]] = field(default_factory=list)


def revert(history: History, name: str | None, journal: Journal) -> Reverted:
    """Take back a change of this session, or the latest one. ToolError not_found, refused, changed_since, protected_path.

    name: the id of the change. What a later change of the session did to the same places has to be undone
    first. Files that somebody else has changed since are left, where the change did nothing but write files and one of
    them is as it was left; else all of it is refused.
    """
    while True:
        entry = _chosen(history, name)
        with _held(entry):
            if not entry.undoable or entry.undone:
                if name is None:
                    continue
                raise _nothing(name)
            there, changed = _look(entry, history)
            steps = _as_left(entry, changed)
            if not changed or (steps and not _later(entry, changed, history)):
                taken = _take_back(steps, there, history)
                with history.lock:
                    journal.entry.undid = entry
                    entry.turn(True)
                journal.note(taken)
                done = _told(entry, taken)
                done.left = [*changed.values()]
                return done
        # It looks at other changes, whose places are held by nobody who waits for those of this one.
        raise _changed_since(entry, changed, history)


def obstacle(entry: Entry, history: History) -> str | None:
    """Return why a change cannot be undone, or not all of it; None if it can."""
    if entry.refused:
        return f"cannot be undone: {entry.refused}"
    if entry.undone:
        return "undone"
    changed = _look(entry, history)[1]
    if not changed:
        return None
    if later := _later(entry, changed, history):
        return _first(later)
    names = sorted(place.shown for place in changed.values())
    told = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"can be undone but for what changed since: {told}" if _as_left(entry, changed) else f"changed since: {told}"


def _as_left(entry: Entry, changed: Changed) -> list[Step]:
    """Return the steps that can be taken back where some places have changed since; none for one that moves."""
    if not changed:
        return entry.steps[:]
    if any(isinstance(step, Moved) for step in entry.steps):
        return []
    left = [step for step in entry.steps if not any(place.path in changed for place in touched([step]))]
    return left if any(isinstance(step, Put) for step in left) else []


def _later(entry: Entry, changed: Changed, history: History) -> list[Entry]:
    """Return the later changes of this session that have to be undone before this one, in that order.

    None where the first of them cannot be undone either: then somebody else has changed something.
    """
    out: list[Entry] = []
    places = {*changed}
    for other in reversed([each for each in history.in_effect() if each.at > entry.at]):
        paths = {place.path for place in touched(other.steps)}
        folders = {folder for path in paths for folder in path.parents}
        above = {folder for path in places for folder in path.parents}
        if not paths.isdisjoint(places | above) or not folders.isdisjoint(places):
            out.insert(0, other)
            places |= paths
    return out if out and not _look(out[0], history)[1] else []


def _first(later: list[Entry]) -> str:
    more = f" and {len(later) - _NAMED} more" if len(later) > _NAMED else ""
    return f"undo {', '.join(other.id for other in later[:_NAMED])}{more} first"


def _changed_since(entry: Entry, changed: Changed, history: History) -> ToolError:
    """Return the refusal, which names what to undo first, or another change that can be undone."""
    place = next(iter(changed.values()))
    if later := _later(entry, changed, history):
        hint = f"{_first(later)}, in this order" if len(later) > 1 else f"{_first(later)}: {later[0].tool} changed it"
    else:
        free = next((other for other in history.in_effect() if obstacle(other, history) is None), None)
        hint = f"restore it by hand; {free.tool} can be undone: id={free.id}" if free else "restore it by hand"
    return ToolError(Code.CHANGED_SINCE, f"{place.shown} has changed since {entry.tool} ({entry.id})", hint)


def _chosen(history: History, name: str | None) -> Entry:
    entry = next(iter(history.in_effect()), None) if name is None else history.find(name)
    if entry is None:
        if name is None:
            raise ToolError(
                Code.NOT_FOUND,
                "this session has no change left that can be undone",
                "what programs and git change is not recorded",
            )
        raise ToolError(
            Code.NOT_FOUND,
            f"no change {name[:100]} is kept for this session",
            f"list=true names the latest; {MAX_CALLS} are kept",
        )
    if entry.refused:
        raise ToolError(Code.REFUSED, f"{entry.tool} ({entry.id}) cannot be undone: {entry.refused}")
    if not entry.undoable or entry.undone:
        raise _nothing(entry.id)
    return entry


def _nothing(name: str) -> ToolError:
    return ToolError(Code.NOT_FOUND, f"nothing is left of {name} to undo", "it is undone already, or too old")


@contextmanager
def _held(entry: Entry) -> Iterator[None]:
    places = touched(entry.steps)
    if not places:
        yield
        return
    with places[0].roots.locks.hold(*(place.absolute for place in places)):
        yield


def _look(entry: Entry, history: History) -> tuple[Contents, Changed]:
    """Return the content of each file that is to change, and the places that are not as the call left them."""
    left: dict[Path, tuple[JailedPath, Content | Moved | Made | None]] = {}
    for step in entry.steps:
        match step:
            case Put():
                left[step.place.path] = step.place, step.after
            case Moved():
                left[step.old.path] = step.old, None
                left[step.new.path] = step.new, step
            case Made():
                left[step.folder.path] = step.folder, None if step.gone else step
    there: Contents = {}
    changed: Changed = {}
    folders_only = all(isinstance(step, Made) for step in entry.steps)
    for path, (place, state) in left.items():
        try:
            match state:
                case Made():
                    as_left = _is_folder(place, {p.name for p in left if p.parent == path} if folders_only else None)
                case Moved():
                    as_left = history.signed(place) == state.left
                case _:
                    now = current(place, state.size if state else 0)
                    as_left = now is None if state is None else now is not None and now.same(state)
                    there[path] = now
        except (OSError, ToolError):
            as_left = False
        if not as_left:
            changed[path] = place
    return there, changed


def _is_folder(place: JailedPath, may_hold: set[str] | None) -> bool:
    fd = place.open_folder()
    try:
        return may_hold is None or set(os.listdir(fd)) <= may_hold
    finally:
        os.close(fd)


def _take_back(steps: Sequence[Step], there: Contents, history: History) -> list[Step]:
    """Take steps back, the last first, and return what that did as steps. On failure all is as before."""
    done: list[Step] = []
    try:
        for is_put, group in groupby(reversed(steps), key=lambda step: isinstance(step, Put)):
            if is_put:
                done += _put_back([step for step in group if isinstance(step, Put)], there, history)
            else:
                for step in group:
                    done += _turned(step, history)
    except BaseException as failure:
        try:
            if done:
                _take_back(done, {step.place.path: step.after for step in done if isinstance(step, Put)}, history)
        except (ToolError, OSError) as second:
            first = failure.error if isinstance(failure, ToolError) else str(failure)
            told = f"{first}; what was undone by then could not be taken back: {second}"
            raise ToolError(Code.REFUSED, told, "look at the files that the call had changed") from None
        raise
    return done


def _put_back(puts: Sequence[Put], there: Contents, history: History) -> list[Step]:
    changes = []
    for put in puts:
        # Where another step has just moved away what was there, nothing is.
        now, wanted = there.get(put.place.path), put.before
        changes.append(
            Change(
                put.place,
                data=wanted.data if wanted else None,
                expect=now.seen if now else None,
                mode=wanted.mode if wanted and not wanted.link else None,
                link=wanted is not None and wanted.link,
                owner=wanted.owner if wanted else None,
                attributes=wanted.attributes if wanted else None,
            )
        )
    by_path = {put.place.path: put for put in puts}
    out: list[Step] = []
    for changed in change_all(changes):
        place = changed.change.place
        after = content_after(changed)
        put = by_path[place.path]
        former = put.before
        if after and after.seen and former and former.seen:
            history.renewed.put_back(after.seen, former.seen)
        out += made(changed.folders)
        out.append(Put(place, there.get(place.path), after, put.quiet))
    return out


def _turned(step: Step, history: History) -> list[Step]:
    match step:
        case Moved():
            moved = entries.move(step.new, step.old)
            back = Moved(step.new, step.old, history.left(step.old), step.to_trash, step.from_trash)
            return [*made(moved.folders), back]
        case Made(folder, mode, gone=True):
            with folder.parent() as (dir_fd, name):
                try:
                    os.mkdir(name, mode, dir_fd=dir_fd)
                except OSError as e:
                    raise refusal(e, folder.shown) from None
            return [Made(folder, mode)]
        case Made(folder, mode):
            # A folder that holds something else meanwhile stays.
            with suppress(OSError), folder.parent() as (dir_fd, name):
                os.rmdir(name, dir_fd=dir_fd)
                return [Made(folder, mode, gone=True)]
            return []
        case Put():
            raise AssertionError("files are put back many at a time")


def _told(entry: Entry, taken: Sequence[Step]) -> Reverted:
    done = Reverted(entry)
    for step in taken:
        match step:
            case Put(place, _, after):
                if not step.quiet:
                    (done.restored if after else done.removed).append(place)
                done.files[place.path] = after
            case Moved():
                if not step.to_trash:
                    done.restored.append(step.new)
                if not step.from_trash:
                    done.removed.append(step.old)
                done.moves.append((step.old.path, step.new.path))
            case Made():
                (done.removed if step.gone else done.restored).append(step.folder)
    back = {place.path for place in done.restored}
    done.removed = [place for place in done.removed if place.path not in back]
    return done
