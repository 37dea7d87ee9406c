from functools import partialmethod

import pytest

from toolbox_mcp.server.call.pipeline import Pipeline


@pytest.fixture(params=["with others", "alone"])
def both_ways(request, monkeypatch):
    """Serve as one who serves others too, and as one who serves nobody else and may wait for the disk."""
    if request.param == "alone":
        monkeypatch.setattr(Pipeline, "begin", partialmethod(Pipeline.begin, alone=True))
