import os


def patience(seconds: float) -> float:
    """Return how long to wait for what is promised within so many seconds of an idle machine.

    Each core serves the processes that want it in turn, so a promise is kept later where more of them do.
    """
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
    return seconds * max(1.0, 2 * waiting)
