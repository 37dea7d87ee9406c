"""A server that confines itself, from its start on."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from toolbox_mcp.sandbox.confine import LEAST_ABI


def _landlock():
    if sys.platform != "linux":
        return 0
    from toolbox_mcp.sandbox.linux.landlock import abi

    return abi()


pytestmark = pytest.mark.skipif(_landlock() < LEAST_ABI, reason="needs Landlock")


class Served:
    """A server on pipes, to which calls are made one after the other."""

    def __init__(self, process):
        self._process = process
        self._sent = 0

    def ask(self, method, **params):
        """Send a request and return its result."""
        self._sent += 1
        self.tell(method, id=self._sent, **params)
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._sent:
                return answer["result"]
        raise AssertionError(f"the server ended: {self._process.stderr.read()}")

    def tell(self, method, id=None, **params):
        """Send a message."""
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def call(self, name, **arguments):
        """Call a tool; return its structured content, or else its text."""
        result = self.ask("tools/call", name=name, arguments=arguments)
        return result.get("structuredContent") or result["content"][0]["text"]


@pytest.fixture
def serve(user):
    """Return a function that makes calls to a server with some settings, and sees it end well."""

    def serve(calls, **settings):
        settings = {"structured_output": "true", **settings}
        given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        with subprocess.Popen(
            [sys.executable, "-m", "toolbox_mcp", "--enable-exec", *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=user.project,
            # Without docker and podman, which would fetch an image.
            env={"HOME": str(user.home), "PATH": str(Path(sys.executable).parent)},
        ) as process:
            server = Served(process)
            client = {"name": "test", "version": "1"}
            server.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
            server.tell("notifications/initialized")
            answers = [server.call(name, **arguments) for name, arguments in calls]
            process.stdin.close()
            assert process.wait(30) == 0
        return answers

    return serve


RUN = ("run_python", {"code": "print(6 * 7)"})


@pytest.mark.parametrize("level", ["write", "strict"])
def test_it_reads_writes_searches_and_runs_in_its_roots(serve, user, level):
    written, read, found, ran = serve(
        [
            ("write_file", {"path": "a", "content": "one\n"}),
            ("read_file", {"path": "a"}),
            ("grep_files", {"pattern": "on."}),
            RUN,
        ],
        confine=level,
    )
    assert (written, read, found) == ("Created a (4 bytes) [undo: c1]", "one", "a:1: one")
    assert ran.get("stdout") == "42\n", ran
    assert (user.project / "a").read_text() == "one\n"


@pytest.mark.slow
def test_a_back_end_that_qualified_before_is_not_taken_where_it_cannot_work(serve):
    [free] = serve([RUN])
    [confined] = serve([RUN], confine="write")
    [free_again] = serve([RUN])
    assert [each["stdout"] for each in (free, confined, free_again)] == ["42\n"] * 3
    assert confined["runtime"] not in ("bubblewrap", "native")
    assert free_again["runtime"] == free["runtime"]


@pytest.mark.parametrize("runtime", ["bubblewrap", "native"])
def test_a_named_back_end_that_mounts_says_what_works_instead(serve, runtime):
    [answer] = serve([RUN], confine="write", sandbox_runtime=runtime)
    assert answer == {
        "error": f"the {runtime} sandbox does not work here: {runtime}: it mounts, which confine forbids; auto, landlock "
        "and docker work under confine",
        "code": "sandbox_unavailable",
        "hint": "toolbox-mcp doctor tells the operator which ones work",
    }


@pytest.fixture
def outside():
    """Return a folder outside of the roots, the home and the temp folder, which stays writable."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    (folder / "made").unlink(missing_ok=True)
    folder.rmdir()


@pytest.mark.parametrize(("level", "escapes"), [("off", True), ("write", False)])
def test_a_single_call_is_confined_like_a_server(user, outside, level, escapes):
    arguments = json.dumps({"command": "sh", "args": ["-c", f"echo x > {outside}/made"]})
    options = ["--enable-exec", "--allow-command", "sh", "--set", f"confine={level}"]
    done = subprocess.run(
        [sys.executable, "-m", "toolbox_mcp", "call", "bash", arguments, *options],
        capture_output=True,
        text=True,
        cwd=user.project,
        env={"HOME": str(user.home), "PATH": "/usr/bin:/bin"},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("exit: 0") == escapes
    assert (outside / "made").exists() == escapes
