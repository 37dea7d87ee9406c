"""The image and the compose file: what they allow, and that a container made from them serves."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.machine import needs, no_podman
from toolbox_mcp.server.config.settings import table

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "packaging/docker"
IMAGE = "localhost/toolbox-mcp-built:test"
TOKEN = "0123456789abcdef0123456789abcdef"
RUNC = ["podman", "--runtime", "runc"]
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
CONFINED = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--tmpfs", "/tmp"]


def compose() -> Any:
    return yaml.safe_load((DOCKER / "compose.yaml").read_text())


def test_a_replica_may_write_to_its_folders_alone_and_has_no_privileges() -> None:
    for name in ("toolbox-1", "toolbox-2"):
        replica = compose()["services"][name]
        assert replica["read_only"] is True
        assert replica["cap_drop"] == ["ALL"]
        assert replica["security_opt"] == ["no-new-privileges:true"]
        assert replica["user"] == "10001:10001"
        assert "ports" not in replica


def test_every_variable_of_a_replica_is_a_setting() -> None:
    known = {about.variable for about in table().values()}
    given = set(compose()["services"]["toolbox-1"]["environment"])
    assert given - known == set()
    words = (DOCKER / "Dockerfile").read_text().split()
    assert set(re.findall(r"--set\", \"(\w+)=", (DOCKER / "Dockerfile").read_text())) <= set(table()), words


def test_the_image_is_made_from_every_package() -> None:
    copied = re.findall(r"^COPY (\w+) \1$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert copied == ["safety", "sandbox", "server", "tools"]


def test_the_proxy_takes_its_configuration(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("caddy")),
            "validate",
            "--adapter",
            "caddyfile",
            "--config",
            str(DOCKER / "Caddyfile"),
        ],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TOOLBOX_SITE": "tools.example.com"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build the image on a Debian that was made from its packages: no image registry is asked."""
    if os.getuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("the image is built as root, with debootstrap")
    base = subprocess.run(
        [ROOT / "tests/sandbox/make_image.sh"], capture_output=True, text=True, timeout=400, check=True
    )
    pip = tmp_path_factory.mktemp("pip")
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", pip / "ca.crt")
    (pip / "pip.conf").write_text(f"[global]\ncert = /pip/ca.crt\n{index_options()}")
    build = [
        *RUNC, "build", "--network", "host", *LIMITS,
        "--volume", f"{pip}:/pip:ro", "--volume", f"{pip / 'pip.conf'}:/etc/pip.conf:ro",
        "--build-arg", f"BASE={base.stdout.strip()}", "--file", str(DOCKER / "Dockerfile"), "--tag", IMAGE, str(ROOT),
    ]  # fmt: skip
    built = subprocess.run(build, capture_output=True, text=True, timeout=500, check=False)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    return IMAGE


def index_options() -> str:
    """Return this machine's index of packages as pip's configuration has it, where it is not the usual one."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    named = re.findall(r"^[\w:.]+\.(index-url|trusted-host)='(.*)'$", listed.stdout, re.MULTILINE)
    return "".join(f"{name} = {value}\n" for name, value in named)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder that the user of the image may write to."""
    made = tmp_path / "project"
    made.mkdir()
    (made / "a.txt").write_text("hello\n")
    os.chown(made, 10001, 10001)
    tokens = tmp_path / "tokens"
    tokens.write_text(f"alice:{TOKEN}\n")
    os.chown(tokens, 10001, 10001)
    tokens.chmod(0o600)
    return made


def run(image: str, project: Path, *more: str) -> list[str]:
    tokens = f"{project.parent / 'tokens'}:/run/tokens:ro"
    return [
        *RUNC,
        "run",
        "--rm",
        "--network",
        "host",
        *LIMITS,
        *CONFINED,
        "-v",
        f"{project}:/project",
        "-v",
        tokens,
        *more,
        image,
    ]


@pytest.fixture
def served(image: str, project: Path) -> Iterator[str]:
    """Serve the project from a container, and yield the address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = {
        "TOOLBOX_TOKEN_FILE": "/run/tokens",
        "TOOLBOX_ALLOWED_HOSTS": "127.0.0.1:*",
        "TOOLBOX_PRESET": "editor",
        "TOOLBOX_PORT": str(port),
    }
    argv = run(image, project, *(word for item in variables.items() for word in ("--env", "=".join(item))))
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as container:
        assert container.stderr is not None
        said = next((line for line in container.stderr if "serving at" in line), "")
        try:
            assert said, container.wait(10)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            container.terminate()
            container.wait(30)


@pytest.mark.slow
@needs(no_podman())
@pytest.mark.xdist_group("image")
def test_a_container_serves_its_project_to_who_has_a_token(served: str, project: Path) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}

    def call(name: str, **arguments: Any) -> Any:
        params = {
            "name": name,
            "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        era = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
        answer = httpx.post(served, json=message, headers=headers | era, timeout=30)
        text = answer.text.split("data: ")[-1] if answer.text.startswith("event") else answer.text
        return json.loads(text)["result"]

    assert httpx.post(served, json={}, timeout=30).status_code == 401
    assert call("read_file", path="a.txt")["content"][0]["text"] == "hello"
    assert call("write_file", path="b.txt", content="x")["isError"] is False
    assert (project / "b.txt").stat().st_uid == 10001


@pytest.mark.slow
@needs(no_podman())
@pytest.mark.xdist_group("image")
def test_a_container_can_write_nowhere_else(image: str, project: Path) -> None:
    look = "id -u; find / -xdev -writable -not -path '/proc/*' -not -path '/dev*' 2>/dev/null"
    argv = run(image, project, "--entrypoint", "sh")
    done = subprocess.run([*argv, "-c", look], capture_output=True, text=True, timeout=60, check=False)
    user, *writable = done.stdout.split()
    # Podman adds the last one to a read-only container.
    assert (user, sorted(writable)) == ("10001", ["/project", "/state", "/tmp", "/var/tmp"])
