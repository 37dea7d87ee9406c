"""How much memory a group of processes holds, where the kernel does not count it for us (no cgroup)."""

from collections.abc import Collection

from .tree import shown_as

_Figures = dict[bytes, int]
"""What a file of /proc tells in KiB, in bytes: {"RssAnon": 4096}."""


def held(pids: Collection[int], enough: int | None = None) -> int:
    """Return the bytes that processes hold: memory without a file, and page tables.

    Private memory counts wherever it is, also paged out and in huge pages. Shared memory counts with its size as long
    as anybody has it mapped, touched or not: its pages stay where no page table has them any more (MADV_DONTNEED, or
    a fork that never touched them), and nothing shows them then.
    enough: above it the exact figure is made, ten times as slow; below, what several share may count for each.
    """
    found = dict(map(_shown, pids))
    tables = sum(status.get(b"VmPTE", 0) for status in found.values())
    mapped = shared(found)
    most = _together([_resident(status) for status in found.values()], mapped) + tables
    if enough is None or most <= enough:
        return most
    # A process may have ended since, so its share is looked for first, and then what there is to tell of it now.
    shares = [_share(pid) or _resident(_figures(pid, "status")) for pid in found]
    return min(most, _together(shares, mapped) + tables)


def shared(pids: Collection[int]) -> int:
    """Return the bytes of shared mappings of files that have no name any more, or never had; each counts once.

    Of a process that does not show its mappings, all that may be such ones count.
    """
    sizes: dict[bytes, int] = {}
    hidden = 0
    for pid in pids:
        mapped: dict[bytes, int] = {}
        try:
            for start, stop, thing in _nameless(pid):
                mapped[thing] = mapped.get(thing, 0) + stop - start
        except PermissionError:
            status = _figures(pid, "status")
            hidden += status.get(b"VmSize", 0) - status.get(b"VmData", 0) - status.get(b"VmStk", 0)
        for thing, size in mapped.items():
            sizes[thing] = max(sizes.get(thing, 0), size)
    return sum(sizes.values()) + hidden


def _nameless(pid: int) -> list[tuple[int, int, bytes]]:
    """Return (first address, end, what it shows) of each such mapping; none for a process that is gone.

    PermissionError: it is not dumpable (PR_SET_DUMPABLE of prctl(2)), and its mappings are for root alone.
    """
    found = []
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            for line in file:
                if line.endswith(b"(deleted)\n"):
                    addresses, rights, _, device, inode, _ = line.split(None, 5)
                    if rights.endswith(b"s"):
                        start, stop = addresses.split(b"-")
                        found.append((int(start, 16), int(stop, 16), device + b":" + inode))
    except PermissionError:
        raise
    except (OSError, ValueError):
        return found
    return found


def _together(each: list[tuple[int, int]], mapped: int) -> int:
    """Return the sum of (private, shared) of each process. mapped: bytes of the mappings of shared memory."""
    return sum(private for private, _ in each) + max(sum(common for _, common in each), mapped)


def _resident(status: _Figures) -> tuple[int, int]:
    # What was paged out is held as well: madvise(2) does that at a program's own wish.
    private = sum(status.get(name, 0) for name in (b"RssAnon", b"VmSwap", b"HugetlbPages"))
    return private, status.get(b"RssShmem", 0)


def _share(pid: int) -> tuple[int, int] | None:
    """Return (private, shared) where each page is divided by how many have it mapped.

    None for a process that does not show that, that is gone, and where the kernel does not tell it of any.
    """
    figures = _figures(pid, "smaps_rollup")
    if b"Pss_Anon" not in figures:
        return None
    private = sum(figures.get(name, 0) for name in (b"Pss_Anon", b"SwapPss", b"Private_Hugetlb", b"Shared_Hugetlb"))
    return private, figures.get(b"Pss_Shmem", 0)


def _shown(pid: int) -> tuple[int, _Figures]:
    """Return the number under which /proc shows the memory of a process, and what it tells.

    It is not its own number where its first thread has ended.
    """
    status = _figures(pid, "status")
    if status.get(b"VmPTE"):
        return pid, status
    pid = shown_as(pid)
    return pid, _figures(pid, "status")


def _figures(pid: int, name: str) -> _Figures:
    """Return the figures of a file of a process; none of one that is gone or closed to us."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            lines = [line.split() for line in file if line.endswith(b" kB\n")]
        return {line[0].rstrip(b":"): int(line[1]) * 1024 for line in lines}
    except (OSError, IndexError, ValueError):
        return {}
