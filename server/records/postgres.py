"""The records in a PostgreSQL database, which several servers share. Everything here blocks."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from .server_id import Server
from .statements import SCHEMA, VERSION, RecordError, Statements
from .store import BUSY, BusyRetry

NAMESPACE = "toolbox_mcp"
"""The schema that holds the table."""
PAUSE = 0.1
"""Seconds between two tries to reach the database."""

_CLAIM = b"SELECT pg_advisory_lock(hashtextextended(%s, 0))"


class PostgresStore(Statements):
    """A connection to the database. Where it is lost, another one is made and the statement is repeated.

    A server holds an advisory lock for as long as it is connected, by which others see that it lives: on another
    machine they could not ask for its process.
    """

    def __init__(self, url: str, patience: BusyRetry | None = None, *, writes: bool) -> None:
        """Connect; where it writes, make the table. Raises RecordError."""
        self._url = url
        self._patience = patience or BusyRetry()
        self._writes = writes
        self._server: Server | None = None
        self._db = self._connected()

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            db = psycopg.connect(
                self._url,
                autocommit=True,
                application_name="toolbox-mcp",
                connect_timeout=round(BUSY),
                tcp_user_timeout=round(BUSY * 1000),
            )
        except psycopg.OperationalError as e:
            raise RecordError(f"the database cannot be reached ({_line(e)})") from None
        except psycopg.Error:
            # The message would repeat parts of the URL, and so perhaps the password.
            raise RecordError("records_url cannot be used as an address of a database") from None
        try:
            db.execute(b"SET statement_timeout = %d" % (BUSY * 1000))
            if self._writes:
                _set_up(db)
            else:
                db.execute("SET default_transaction_read_only = on")
            db.execute(b"SET search_path TO " + NAMESPACE.encode())
            self._check_version(db)
            if self._server is not None:
                db.execute(_CLAIM, (str(self._server),))
        except BaseException as e:
            db.close()
            if isinstance(e, psycopg.Error):
                raise RecordError(f"the records cannot be opened ({_line(e)})") from None
            raise
        return db

    def _check_version(self, db: psycopg.Connection[tuple[Any, ...]]) -> None:
        row = db.execute("SELECT obj_description(to_regclass('calls'), 'pg_class')").fetchone()
        if not row or row[0] is None:
            raise RecordError("the database holds no records")
        if row[0] != str(VERSION):
            raise RecordError(f"the records are of version {row[0]}, and this server knows {VERSION}")

    def claim(self, server: Server) -> None:
        """Hold the lock by which others see that a server lives."""
        self._server = server
        self._execute(_CLAIM.decode(), (str(server),))

    def is_alive(self, server: str, me: Server) -> bool:
        """Return True if a server is connected: it holds its lock."""
        if server == str(me):
            return True
        free = self._execute("SELECT pg_try_advisory_lock(hashtextextended(?, 0))", (server,)).fetchone()[0]
        if free:
            self._execute("SELECT pg_advisory_unlock(hashtextextended(?, 0))", (server,))
        return not free

    def _find(self) -> None: ...

    def _ready(self, patient: bool) -> Callable[..., Any]:
        return self._execute

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        text, given = statement.replace("?", "%s").encode(), [_plain(value) for value in values]
        while True:
            try:
                if self._db.closed:
                    self._db = self._connected()
                return self._db.execute(text, given)
            except psycopg.Error as e:
                if not self._db.closed or self._patience.is_over:
                    raise RecordError(f"the database refused ({_line(e)})") from None
            except RecordError:
                if self._patience.is_over:
                    raise
            time.sleep(PAUSE)

    def _is_above(self, max_bytes: int) -> bool:
        # Deleting does not make the table smaller at once, and asking each row takes a while.
        for statement in ("pg_total_relation_size('calls')", "sum(pg_column_size(calls.*)) FROM calls"):
            if (self._execute(f"SELECT {statement}").fetchone()[0] or 0) <= max_bytes:
                return False
        return True

    def checkpoint(self) -> None:
        """Do nothing: the database looks after itself."""

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


def _set_up(db: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Make the table where there is none; of servers that start together one makes it."""
    name = NAMESPACE.encode()
    with db.transaction():
        db.execute(b"SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (NAMESPACE,))
        found = db.execute(b"SELECT to_regnamespace(%s), to_regclass(%s)", (NAMESPACE, f"{NAMESPACE}.calls")).fetchone()
        schema, table = found or (None, None)
        # Asking for a schema that exists takes the right to make one, which this role may lack.
        if schema is None:
            db.execute(b"CREATE SCHEMA " + name)
        if table is None:
            db.execute(b"SET LOCAL search_path TO " + name)
            for statement in SCHEMA.format(number="BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY").split(";"):
                db.execute(statement.encode())
            db.execute(b"COMMENT ON TABLE calls IS '%d'" % VERSION)


def _plain(value: Any) -> Any:
    """Return a value that PostgreSQL takes: its texts have no NUL, and its integers are no booleans."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    return int(value) if isinstance(value, bool) else value


def _line(e: psycopg.Error) -> str:
    return (str(e).strip() or type(e).__name__).splitlines()[0]
