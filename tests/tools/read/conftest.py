import pytest

from toolbox_mcp.sandbox.ripgrep import Ripgrep


@pytest.fixture(params=[pytest.param("view", marks=pytest.mark.attack), "thread"])
def confinement(request, monkeypatch):
    """Have every search run in a view, or in a thread that Landlock confines. Without it, what comes first does."""
    standing = Ripgrep._standing_view

    async def waited(self):
        await standing(self)
        if self._view is None:
            return None
        await self._view.settled()
        assert self._view.stands, self._view.trouble
        return self._view

    async def without(self):
        return None

    monkeypatch.setattr(Ripgrep, "_standing_view", waited if request.param == "view" else without)
