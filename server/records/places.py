"""Where the records are: a file, or a database."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..config.errors import ConfigError
from .statements import Statements
from .store import BusyRetry, RecordStore

if TYPE_CHECKING:
    from .postgres import PostgresStore

Place = Path | str
"""The path of an SQLite file, or the URL of a PostgreSQL database."""


def writable(place: Place, patience: BusyRetry | None = None) -> Statements:
    """Open the records for writing, and make them where there are none. Raises RecordError."""
    if isinstance(place, Path):
        return RecordStore.writable(place, patience)
    return _postgres()(place, patience, writes=True)


def readable(place: Place) -> Statements:
    """Open existing records for reading; they are not changed. Raises RecordError."""
    return RecordStore.readable(place) if isinstance(place, Path) else _postgres()(place, writes=False)


def _postgres() -> "type[PostgresStore]":
    try:
        from .postgres import PostgresStore
    except ImportError:
        raise ConfigError(
            "records_url: install the extra postgres, as in pip install 'toolbox-mcp[postgres]'"
        ) from None
    return PostgresStore
