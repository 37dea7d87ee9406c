"""How much memory a group of processes holds, where the kernel does not count it for us (no cgroup)."""

from collections.abc import Collection

from toolbox_mcp.sandbox.tree import shown_as


def held(pids: Collection[int], enough: int | None = None) -> int:
    """Return the bytes that processes hold: memory without a file, and page tables.

    Shared memory counts with its size as long as anybody has it mapped, touched or not: its pages stay where no page
    table has them any more (MADV_DONTNEED, or a fork that never touched them), and nothing shows them then.
    enough: above it the exact figure is made, ten times as slow; below, what several share may count for each.
    """
    pids = [_shown(pid) for pid in pids]
    private = sum(_sum_of(pid, "status", (b"RssAnon:", b"VmPTE:")) for pid in pids)
    resident = sum(_sum_of(pid, "status", (b"RssShmem:",)) for pid in pids)
    mapped = shared(pids)
    most = private + max(resident, mapped)
    if enough is None or most <= enough:
        return most
    private = sum(_sum_of(pid, "smaps_rollup", (b"Pss_Anon:",)) + _sum_of(pid, "status", (b"VmPTE:",)) for pid in pids)
    resident = sum(_sum_of(pid, "smaps_rollup", (b"Pss_Shmem:",)) for pid in pids)
    exact = private + max(resident, mapped)
    # A kernel without smaps_rollup says nothing, which is not to say that nothing is held.
    return min(most, exact) if exact else most


def shared(pids: Collection[int]) -> int:
    """Return the bytes of shared mappings of files that have no name any more, or never had; each counts once."""
    sizes: dict[bytes, int] = {}
    for pid in pids:
        mapped: dict[bytes, int] = {}
        for start, stop, thing in _nameless(pid):
            mapped[thing] = mapped.get(thing, 0) + stop - start
        for thing, size in mapped.items():
            sizes[thing] = max(sizes.get(thing, 0), size)
    return sum(sizes.values())


def _nameless(pid: int) -> list[tuple[int, int, bytes]]:
    """Return (first address, end, what it shows) of each such mapping; none for a process that is gone."""
    found = []
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            for line in file:
                if line.endswith(b"(deleted)\n"):
                    addresses, rights, _, device, inode, _ = line.split(None, 5)
                    if rights.endswith(b"s"):
                        start, stop = addresses.split(b"-")
                        found.append((int(start, 16), int(stop, 16), device + b":" + inode))
    except (OSError, ValueError):
        return found
    return found


def _shown(pid: int) -> int:
    """Return the number under which /proc shows the memory of a process, also of one whose first thread has ended."""
    return pid if _sum_of(pid, "status", (b"VmPTE:",)) else shown_as(pid)


def _sum_of(pid: int, name: str, fields: tuple[bytes, ...]) -> int:
    """Sum fields that /proc gives in KiB; 0 for a process that is gone or closed to us."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(fields))
    except (OSError, IndexError, ValueError):
        return 0
