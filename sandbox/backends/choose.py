"""Which back end is used: the named one, or the first that qualifies."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from ..spec import Probe
from .base import Backend
from .none import NoSandbox

LINUX = ("bubblewrap", "native", "docker", "podman", "landlock")
MACOS = ("seatbelt", "docker", "podman")
ELSEWHERE = ("docker", "podman")

Qualify = Callable[[Backend], Awaitable[Probe]]


def candidates(runtime: str, platform: str) -> tuple[str, ...]:
    """Return the names to try for a setting, best first; platform is sys.platform."""
    if runtime == "auto":
        return LINUX if platform == "linux" else MACOS if platform == "darwin" else ELSEWHERE
    if runtime == "container":
        return ("docker", "podman")
    return () if runtime == "none" else (runtime,)


async def choose(
    runtime: str, names: Sequence[str], backends: Mapping[str, Backend], qualify: Qualify
) -> tuple[Backend, Probe]:
    """Return the first back end that qualifies, and how; one that refuses everything where none does."""
    refused: list[str] = []
    for name in names:
        backend = backends.get(name)
        if backend is None:
            refused.append(f"{name}: not offered here")
            continue
        probe = await qualify(backend)
        if probe.ok:
            return backend, probe
        refused.append(f"{name}: {'; '.join(probe.reasons)}")
    reason = " | ".join(refused) or f"sandbox_runtime is {runtime}"
    return NoSandbox(runtime, reason), Probe(False, tuple(refused) or (reason,))
