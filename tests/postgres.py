"""A PostgreSQL server for tests, on loopback and on disk only for as long as it is needed."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

PASSWORD = "s3cret-of-the-database"
NOBODY = 65534
"""PostgreSQL refuses to run as root."""


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs; Debian keeps them off the PATH."""
    found = shutil.which("pg_ctl")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return Path(found).parent if found else next((each for each in folders if (each / "pg_ctl").exists()), None)


@dataclass
class Cluster:
    """A server; databases are made as they are asked for."""

    programs: Path
    folder: Path
    port: int
    made: int = 0

    def url(self, database: str, user: str = "toolbox", password: str = PASSWORD) -> str:
        """Return the address of a database."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """Make an empty database, and return its address."""
        self.made += 1
        with psycopg.connect(self.url("postgres"), autocommit=True) as db:
            db.execute(b"CREATE DATABASE test%d" % self.made)
        return self.url(f"test{self.made}")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = f"-k {self.folder} -h 127.0.0.1 -p {self.port} -c fsync=off -c max_connections=200"
        self._run("pg_ctl", "start", "-w", "-D", "data", "-l", "server.log", "-o", options)

    def stop(self) -> None:
        """End the server at once; its connections break."""
        self._run("pg_ctl", "stop", "-w", "-D", "data", "-m", "immediate")

    def make(self) -> None:
        """Make the files of the server."""
        (self.folder / "password").write_text(PASSWORD)
        self._run(
            "initdb", "-D", "data", "-U", "toolbox", "-E", "UTF8", "-N", "-A", "scram-sha-256", "--pwfile=password"
        )

    def _run(self, name: str, *args: str) -> None:
        user = NOBODY if os.getuid() == 0 else None
        with (self.folder / "log").open("ab") as log:
            argv = [str(self.programs / name), *args]
            subprocess.run(argv, cwd=self.folder, user=user, group=user, stdout=log, stderr=log, timeout=90, check=True)


@contextmanager
def running(folder_of_programs: Path) -> Iterator[Cluster]:
    """Run a server until the block ends."""
    with tempfile.TemporaryDirectory(prefix="postgres") as folder:
        if os.getuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        cluster = Cluster(folder_of_programs, Path(folder), port)
        cluster.make()
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
