"""Containers, really run by podman in an image that was made on this machine; docker is a stand-in."""

import asyncio
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.machine import needs, no_podman
from tests.sandbox.conftest import ENV, OPTIONS, PATH, containers
from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.sandbox.backends import self_test as attack
from toolbox_mcp.sandbox.backends.container import ENGINE_FILTERS, Container, arguments
from toolbox_mcp.sandbox.service import Sandbox, SandboxSettings
from toolbox_mcp.sandbox.spec import MIB, FsPolicy, Job, Limits


@pytest.fixture
def job(image):
    """Return a maker of jobs that run Python code in the image."""

    def make(code, **limits):
        return Job(("python3", "-u", "-"), code.encode(), image=image, limits=Limits(**{"wall": 20, **limits}))

    return make


@pytest.fixture
def sandbox_settings(image, tmp_path):
    return SandboxSettings(
        tmp_path, tmp_path, "/nonexistent", ENV, "podman", images={"python": image},
        engine_options=OPTIONS,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def none_left(request):
    """See that no container outlives a test."""
    yield
    if "image" in request.fixturenames:
        assert containers() == []


# How programs end


@pytest.mark.parametrize(
    ("code", "limits", "end"),
    [
        ("print('hi')", {}, (0, None, None, "hi\n", "")),
        ("import sys; sys.stderr.write('bad'); sys.exit(3)", {}, (3, None, None, "", "bad")),
        ("import sys; sys.exit(125)", {}, (125, None, None, "", "")),
        ("import sys; sys.exit(127)", {}, (127, None, None, "", "")),
        ("import os; os.kill(os.getpid(), 9)", {}, (137, "SIGKILL", "external", "", "")),
        ("import os; os.kill(os.getpid(), 6)", {}, (134, "SIGABRT", None, "", "")),
        ("x = b'x' * (200 << 20)", {"memory": 64 * MIB}, (137, "SIGKILL", "memory", "", "")),
        (
            "import sys; sys.stderr.write('no line end'); x = b'x' * (200 << 20)",
            {"memory": 64 * MIB},
            (137, "SIGKILL", "memory", "", "no line end"),
        ),
        (
            "import os, time\ntry:\n  for n in range(40):\n    if os.fork() == 0: time.sleep(60)\nexcept OSError: print(n < 20)",
            {"processes": 20},
            (0, None, None, "True\n", ""),
        ),
        (
            "import errno\ntry: open('/tmp/x', 'wb').write(bytes(9 << 20))\nexcept OSError as e: print(e.errno == errno.ENOSPC)",
            {"disk": 8 * MIB},
            (0, None, None, "True\n", ""),
        ),
        # Nothing counts them, but the kernel's memory for each is the container's.
        (
            "import os\nfor n in range(1 << 20): os.close(os.open(f'x{n}', os.O_CREAT))",
            {"memory": 64 * MIB},
            (137, "SIGKILL", "memory", "", ""),
        ),
        (
            "import os, time\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(60)\nexcept OSError: os._exit(7)",
            {"processes": 20},
            (7, None, None, "", ""),
        ),
        ("print(input())", {}, (1, None, None, "", None)),
    ],
)
async def test_a_program_ends_with_its_status_and_its_cause(podman, job, code, limits, end):
    result = await podman.run(job(code, **limits))
    done = result.finished
    assert (done.exit_code, done.signal, done.killed_by, done.stdout.text) == end[:4]
    assert end[4] is None or (done.stderr.text, done.stderr.bytes) == (end[4], len(end[4]))
    assert (result.runtime, result.degraded, result.files) == ("podman", False, ())


@pytest.mark.parametrize("program", ["true", "nowhere"])
def test_the_supervisor_reads_what_the_program_left_of_its_stdin(program):
    job = Job((program,), image="any")
    argv = arguments(job, "name")
    argv = argv[argv.index("any") + 1 :]
    with subprocess.Popen(["/bin/sh", *argv], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as supervisor:
        # More than a pipe holds: it would break here.
        supervisor.stdin.write(b"x" * MIB)
        supervisor.stdin.close()
        assert supervisor.stderr.read() == (b"" if program == "true" else b"name missing\n")
    assert supervisor.returncode == (0 if program == "true" else 127)


async def test_a_program_that_takes_too_long_is_killed_with_its_container(podman, job, monkeypatch):
    monkeypatch.setattr("toolbox_mcp.sandbox.backends.container.START_SECONDS", 1.0)
    done = (await podman.run(job("print('begun', flush=True)\nwhile True: pass", wall=1))).finished
    assert (done.exit_code, done.killed_by, done.stdout.text) == (124, "wall", "begun\n")
    assert containers() == []


async def test_a_program_that_writes_too_much_is_killed_with_its_container(podman, job):
    done = (await podman.run(job("while True: print('x' * 65536)", output=8 * MIB))).finished
    assert (done.killed_by, done.stdout.truncated) == ("output", True)
    assert containers() == []


async def test_a_cancelled_run_leaves_no_container(podman, job):
    running = asyncio.create_task(podman.run(job("while True: pass")))
    async with asyncio.timeout(20):
        while not await asyncio.to_thread(containers):
            assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert containers() == []


# What is inside


async def test_a_container_has_nothing_but_its_image_and_a_scratch_folder(podman, job):
    code = """
import os, socket
def refused(act):
    try: act()
    except OSError: return True
    return False
status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print(os.getuid(), os.getgid(), os.getcwd(), status["CapBnd"], status["CapEff"], status["NoNewPrivs"])
print(refused(lambda: open("/etc/x", "w")), refused(lambda: open("/x", "w")), os.listdir("/tmp"))
print(refused(lambda: socket.create_connection(("127.0.0.1", PORT), 2)), os.listdir("/sys/class/net"))
print(sorted(set(os.environ) - {"PATH", "HOME", "LANG", "MPLBACKEND", "PWD", "TERM", "container", "HOSTNAME"}))
"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = (await podman.run(job(code.replace("PORT", str(server.getsockname()[1]))))).finished
    assert done.stdout.text.splitlines() == [
        f"65534 65534 /tmp {0:016x} {0:016x} 1",
        "True True []",
        "True ['lo']",
        "[]",
    ]


async def test_the_hosts_network_is_ipv4_and_ipv6_and_no_unix_socket(podman, job):
    code = """
import socket
def reached(family, address):
    try:
        with socket.socket(family) as s: s.connect(address)
    except OSError as e: return e.errno
    return True
print(reached(socket.AF_INET, ("127.0.0.1", PORT)), reached(socket.AF_UNIX, "\\0NAME"), reached(socket.AF_VSOCK, (2, 1)))
"""
    name = f"toolbox-{os.urandom(8).hex()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        asked = job(code.replace("PORT", str(server.getsockname()[1])).replace("NAME", name))
        done = (await podman.run(replace(asked, network=True))).finished
    assert done.stdout.text == "True 1 1\n"


async def test_a_proxy_of_the_engine_is_not_told_to_the_program(image, tmp_path, zygote):
    env = ENV | {"http_proxy": "http://user:secret@127.0.0.1:9", "HTTPS_PROXY": "http://user:secret@127.0.0.1:9"}
    podman = Container("podman", zygote, env=env, state=tmp_path, options=OPTIONS)
    done = (await podman.run(Job(("env",), image=image))).finished
    assert "HOME=/tmp" in done.stdout.text.splitlines()
    assert "secret" not in done.stdout.text


@pytest.mark.parametrize(
    "name", ["plain", "with:colon", 'comma,"quote"', "line\nbreak", "readonly", "=x,readonly=false"]
)
async def test_a_folder_of_any_name_is_at_its_own_place(podman, image, tmp_path, name):
    shown, kept = tmp_path / name, tmp_path / f"{name}.kept"
    for folder in (shown, kept):
        folder.mkdir()
        folder.chmod(0o777)
    (kept / "file").write_text("own")
    files = FsPolicy(read=(str(kept),), write=(str(shown),))
    code = 'cat "$1/file" > "$0/file" && echo new > "$1/file" || echo refused'
    job = Job(("/bin/sh", "-c", code, str(shown), str(kept)), files=files, image=image, cwd=str(shown))
    assert (await podman.run(job)).finished.stdout.text == "refused\n"
    assert ((shown / "file").read_text(), (kept / "file").read_text()) == ("own", "own")


@needs(no_podman())
async def test_an_image_is_not_taken_for_an_option(podman):
    with pytest.raises(ToolError) as refused:
        await podman.run(Job(("true",), image="--privileged"))
    assert refused.value.code is Code.SANDBOX_UNAVAILABLE


@pytest.mark.parametrize(
    ("code", "limits", "end"),
    [
        ("while True: pass", {"cpu": 1}, (152, "SIGXCPU", "cpu")),
        ("open('x', 'wb').write(bytes(5 << 20))", {"file_size": 4 * MIB}, (1, None, None)),
        ("import os; [os.dup(0) for _ in range(70)]", {"files": 64}, (1, None, None)),
    ],
)
async def test_what_the_kernel_limits_for_each_process_holds_in_a_container(podman, job, code, limits, end):
    done = (await podman.run(job(code, **limits))).finished
    assert (done.exit_code, done.signal, done.killed_by) == end


async def test_a_podman_whose_service_is_elsewhere_filters_by_itself_and_is_degraded(tmp_path, zygote):
    log = tmp_path / "log"
    (tmp_path / "podman").write_text(f'#!/bin/sh\necho "$*" >>{log}\n[ "$1" != info ] || echo true\n')
    (tmp_path / "podman").chmod(0o755)
    podman = Container("podman", zygote, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, state=tmp_path)
    assert (await podman.probe()).reasons == (ENGINE_FILTERS,)
    assert (await podman.run(Job(("true",), image="i"))).reasons == (ENGINE_FILTERS,)
    assert "no-new-privileges" in log.read_text()
    assert "seccomp" not in log.read_text()


async def test_a_language_that_the_image_lacks_is_unavailable(podman, job):
    with pytest.raises(ToolError) as refused:
        await podman.run(Job(("no-such-program",), image=job("").image))
    assert (refused.value.code, refused.value.error) == (
        Code.UNAVAILABLE,
        f"no-such-program is not in the image {job('').image}",
    )


async def test_what_the_engine_refuses_is_no_result(image, tmp_path, zygote):
    podman = Container(
        "podman", zygote, env=ENV, state=tmp_path, options=OPTIONS, run_options=("--memory-swappiness", "1000")
    )
    with pytest.raises(ToolError) as refused:
        await podman.run(Job(("true",), image=image))
    assert refused.value.code is Code.SANDBOX_UNAVAILABLE


# Images and registries


class Registry:
    """A registry that only notices who comes."""

    def __init__(self):
        self.visited = asyncio.Event()

    async def visit(self, reader, writer):
        self.visited.set()
        writer.close()


@pytest.fixture
async def registry():
    """Return a registry, with its address."""
    noticing = Registry()
    async with await asyncio.start_server(noticing.visit, "127.0.0.1", 0) as server:
        noticing.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield noticing


async def test_neither_a_run_nor_the_doctor_asks_a_registry(podman, registry, image, sandbox_settings):
    absent = f"{registry.address}/absent"
    assert not await podman.has(absent)
    with pytest.raises(ToolError) as refused:
        await podman.run(Job(("true",), image=absent))
    assert refused.value.code is Code.SANDBOX_UNAVAILABLE
    sandbox = Sandbox(replace(sandbox_settings, images={"python": absent}))
    try:
        found = await sandbox.doctor()
    finally:
        await sandbox.aclose()
    reason = f"{absent} is not here; it is fetched at first use"
    assert (found["podman"].ok, found["podman"].reasons) == (False, (reason,))
    assert not registry.visited.is_set()
    fetching = asyncio.create_task(podman.fetch(absent))
    async with asyncio.timeout(20):
        await registry.visited.wait()
    fetching.cancel()
    with pytest.raises((asyncio.CancelledError, ToolError)):
        await fetching


async def test_podman_qualifies_and_serves_run_python(sandbox_settings):
    sandbox = Sandbox(sandbox_settings)
    try:
        assert (await sandbox.doctor())["podman"].ok
        done = await sandbox.run_code(
            "python",
            "import os; open('a.png', 'wb'); print(os.uname().nodename != NODE)".replace(
                "NODE", repr(os.uname().nodename)
            ),
        )
        assert (done.finished.stdout.text, done.runtime, done.degraded, done.files) == ("True\n", "podman", False, ())
        assert sandbox.waiting == ()
    finally:
        await sandbox.aclose()


async def test_the_attack_on_a_container_succeeds_where_it_is_let(podman, image, tmp_path):
    (tmp_path / "canary").write_text("a secret")
    tmp_path.chmod(0o777)
    targets = {
        "secret": "a secret",
        "canary": f"{tmp_path}/canary",
        "outside": f"{tmp_path}/out",
        "pid": 99999,
        "forks": 80,
    }
    let = Job(
        ("/bin/sh",),
        attack.shell(targets),
        image=image,
        files=FsPolicy(write=(str(tmp_path),)),
        env={"SECRET": "a secret"},
        limits=Limits(processes=200),
    )
    said = (await podman.run(let)).finished.stdout.text.split()
    assert said == ["file_read", "file_written", "environment_read", "forking", "many_processes", "done"]
    kept = Job(("/bin/sh",), attack.shell(targets), image=image, limits=Limits(processes=64))
    assert (await podman.run(kept)).finished.stdout.text.split() == ["forking", "done"]


async def test_containers_conf_of_the_operator_reaches_podman(image, tmp_path, zygote):
    conf = tmp_path / "containers.conf"
    conf.write_text(
        '[engine]\nruntime = "runc"\n[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]\nenv = ["MARK=1"]\n'
    )
    podman = Container("podman", zygote, env={**ENV, "CONTAINERS_CONF": str(conf)}, state=tmp_path)
    done = await podman.run(Job(("/bin/sh", "-c", "ulimit -n; echo $MARK"), image=image))
    # The limits of the job are above those of the engine.
    assert done.finished.stdout.text == "256\n1\n"


def test_fifty_containers_leave_nothing_behind(image):
    given = ["--runs", "50", "--runtime", "podman", "--path", PATH, "--image", image]
    given += [f"--engine-option={option}" for option in OPTIONS]
    soak = Path(__file__).parents[2] / "bench" / "soak_sandbox.py"
    done = subprocess.run([sys.executable, soak, *given], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "podman: 50 runs" in done.stdout


@pytest.mark.parametrize(("engine", "behind"), [("docker", True), ("podman", False)])
async def test_the_oci_runtime_of_the_setting_is_handed_to_the_engine(tmp_path, engine, behind):
    log = tmp_path / "log"
    (tmp_path / engine).write_text(f'#!/bin/sh\nprintf "%s " "$@" >>{log}\necho >>{log}\n')
    (tmp_path / engine).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    sandbox = Sandbox(
        SandboxSettings(tmp_path, tmp_path, "/nonexistent", env, engine, images={"python": "i"}, oci_runtime="runsc")
    )
    try:
        assert not (await sandbox.doctor())[engine].ok
    finally:
        await sandbox.aclose()
    ran = [line.split() for line in log.read_text().splitlines() if " run " in f" {line}"]
    assert ran
    for words in ran:
        at = words.index("--runtime")
        assert words[at + 1] == "runsc" and (at > words.index("run")) == behind


# Engines that are not there


async def test_an_engine_without_its_daemon_does_not_work(tmp_path, zygote):
    (tmp_path / "docker").write_text(
        "#!/bin/sh\necho 'Cannot connect to the Docker daemon at '$DOCKER_HOST >&2; exit 1\n"
    )
    (tmp_path / "docker").chmod(0o755)
    docker = Container("docker", zygote, env={"PATH": f"{tmp_path}:/bin", "DOCKER_HOST": "tcp://far"}, state=tmp_path)
    probe = await docker.probe()
    assert (probe.ok, probe.reasons) == (False, ("Cannot connect to the Docker daemon at tcp://far",))


async def test_an_engine_that_cannot_be_given_its_filter_does_not_work(tmp_path, zygote):
    (tmp_path / "docker").write_text("#!/bin/sh\n")
    (tmp_path / "docker").chmod(0o755)
    (tmp_path / "state").write_text("a file where the folder should be")
    docker = Container("docker", zygote, env={"PATH": f"{tmp_path}:/bin"}, state=tmp_path / "state")
    probe = await docker.probe()
    assert not probe.ok
    assert "the filter of system calls cannot be written: " in probe.reasons[0]
    with pytest.raises(ToolError) as refused:
        await docker.run(Job(("true",), image="i"))
    assert refused.value.code is Code.SANDBOX_UNAVAILABLE


async def test_an_engine_that_is_not_installed_does_not_work(tmp_path, zygote):
    probe = await Container("docker", zygote, env={"PATH": str(tmp_path)}, state=tmp_path).probe()
    assert (probe.ok, probe.reasons) == (False, ("docker is not installed",))


async def test_a_run_that_is_killed_kills_its_container_by_name(tmp_path, monkeypatch, zygote):
    monkeypatch.setattr("toolbox_mcp.sandbox.backends.container.START_SECONDS", 0.0)
    log = tmp_path / "log"
    (tmp_path / "docker").write_text(
        f'#!/bin/sh\necho "$*" | tr "\\n" " " >>{log}\necho >>{log}\n[ "$1" != run ] || exec sleep 60\n'
    )
    (tmp_path / "docker").chmod(0o755)
    docker = Container("docker", zygote, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, state=tmp_path)
    done = (await docker.run(Job(("true",), image="i", limits=Limits(wall=0.2)))).finished
    ran, *after = [line.split() for line in log.read_text().splitlines()]
    name = ran[ran.index("--name") + 1]
    assert done.killed_by == "wall"
    assert after == [["kill", name], ["rm", "--force", name]]
