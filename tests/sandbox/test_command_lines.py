"""The whole command line of each back end that is a program, word for word."""

import csv
import sys
from pathlib import Path

import pytest

from tests.tables import each_row
from toolbox_mcp.sandbox.backends import bubblewrap, container, seatbelt
from toolbox_mcp.sandbox.backends.container import Container
from toolbox_mcp.sandbox.spec import MIB, FsPolicy, Job, Limits

PLAIN = Job(argv=("/usr/bin/python3", "-u", "-"), image="python:3-slim")
RICH = Job(
    argv=("/opt/it/bin/it", "-x"),
    env={"PATH": "/opt/it/bin:/usr/bin", "HOME": "/tmp", "A": "1 2"},
    files=FsPolicy(read=("/opt/it",), write=("/srv/base",), links=(("/usr/local/bin/it", "/opt/it/bin/it"),)),
    limits=Limits(memory=100 * MIB + 1, cpus=2.5, processes=7, disk=5 * MIB),
    cwd="/srv/base",
    network=True,
    image="own/image@sha256:0",
)


def lines(text):
    return text.split()


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A system with one folder, one link and one thing that is not there."""
    (tmp_path / "usr").mkdir()
    (tmp_path / "bin").symlink_to("usr/bin")
    paths = tuple(str(tmp_path / name) for name in ("usr", "bin", "missing"))
    monkeypatch.setattr(bubblewrap, "SYSTEM", paths)
    monkeypatch.setattr(bubblewrap, "PROC_HIDDEN", ("version", "missing"))
    return paths


GATE = '{ ulimit -u "$0" 2>&- || ulimit -p "$0"; } && echo >&3 && read -r _ <&4 && exec "$@" 3>&- 4<&-'  # fmt: skip


def bwrap_golden(system, *, net, env, disk, binds, cwd, extra, processes, argv):
    usr, link, missing = system
    return [
        *lines("/usr/bin/bwrap --unshare-all --unshare-user --disable-userns --uid 65534 --gid 65534"),
        *lines("--hostname sandbox --die-with-parent --new-session --cap-drop ALL --clearenv"),
        *net,
        *["--ro-bind-try", usr, usr, "--symlink", "usr/bin", link, "--ro-bind-try", missing, missing],
        *lines("--proc /proc --ro-bind /proc/sys /proc/sys"),
        *(lines("--ro-bind /dev/null /proc/version") if Path("/proc/version").exists() else []),
        *lines("--remount-ro /proc --dev /dev --size 16777216 --tmpfs /dev/shm --remount-ro /dev"),
        *lines("--tmpfs /dev/pts --remount-ro /dev/pts"),
        *["--size", disk, "--tmpfs", "/tmp"],
        *binds,
        *["--remount-ro", "/", "--chdir", cwd, "--seccomp", "10", "--info-fd", "11"],
        *extra,
        *["--", "/bin/sh", "-c", GATE, processes],
        *["/usr/bin/env", "-i", "--", *(f"{name}={value}" for name, value in env)],
        *argv,
    ]


def test_bubblewrap(system):
    assert bubblewrap.arguments(PLAIN, bwrap="/usr/bin/bwrap") == bwrap_golden(
        system,
        net=[],
        env=[
            ("HOME", "/tmp"),
            ("LANG", "C.UTF-8"),
            ("MPLBACKEND", "Agg"),
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("TMPDIR", "/tmp"),
        ],
        disk="67108864",
        binds=[],
        cwd="/tmp",
        extra=[],
        processes="129",
        argv=["/usr/bin/python3", "-u", "-"],
    )


def test_bubblewrap_with_all_there_is(system):
    assert bubblewrap.arguments(RICH, bwrap="/usr/bin/bwrap", extra=["--bind", "/a", "/b"]) == bwrap_golden(
        system,
        net=["--share-net"],
        env=[("A", "1 2"), ("HOME", "/tmp"), ("PATH", "/opt/it/bin:/usr/bin"), ("TMPDIR", "/tmp")],
        disk="5242880",
        binds=[
            *lines("--ro-bind-try /opt/it /opt/it --bind /srv/base /srv/base"),
            *lines("--symlink /opt/it/bin/it /usr/local/bin/it"),
        ],
        cwd="/srv/base",
        extra=["--bind", "/a", "/b"],
        processes="8",
        argv=["/opt/it/bin/it", "-x"],
    )


def test_no_word_of_the_job_is_taken_for_an_option_of_bwrap(system):
    argv = bubblewrap.arguments(Job(argv=("/bin/x", "--share-net", "--")), bwrap="/usr/bin/bwrap")
    assert argv[argv.index("--") :][-3:] == ["/bin/x", "--share-net", "--"]
    assert "--share-net" not in argv[: argv.index("--")]


SUPERVISOR = """exec 3>&2 2>/dev/null
command -v "$1" >&2 || { echo "$0 missing" >&3; cat >&2; exit 127; }
(exec "$@" 2>&3 3>&-)
status=$?
trap 'exit $status' EXIT
[ $status = 137 ] && for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  while read -r name count; do [ "$name" = oom_kill ] && [ "$count" != 0 ] && echo "$0 memory" >&3; done <"$file"
done
cat >&2"""


def test_container():
    assert container.arguments(PLAIN, "N", seccomp="/srv/a filter.json") == [
        *lines("run --rm -i --pull=never --name N --network none --log-driver none"),
        *lines("--memory 256m --memory-swap 256m --cpus 1 --pids-limit 129"),
        *lines("--ulimit cpu=30:31 --ulimit nofile=256:256 --ulimit fsize=67108864:67108864"),
        *lines("--ulimit memlock=65536:65536 --ulimit sigpending=256:256 --ulimit msgqueue=0:0 --ulimit core=1:1"),
        *lines("--read-only --shm-size 16m --tmpfs /tmp:rw,exec,nosuid,nodev,size=64m --tmpfs /var/tmp:ro,size=4k"),
        *lines("--cap-drop ALL --security-opt no-new-privileges --security-opt"),
        "seccomp=/srv/a filter.json",
        *lines("--user 65534:65534 -w /tmp -e HOME=/tmp -e LANG=C.UTF-8 -e MPLBACKEND=Agg"),
        *["--entrypoint", "/bin/sh", "--", "python:3-slim", "-c", SUPERVISOR, "N", "/usr/bin/python3", "-u", "-"],
    ]


def test_container_with_all_there_is():
    assert container.arguments(RICH, "N", most_processes=5000, extra=["--runtime=runsc", "--device", "/dev/x"]) == [
        *lines("run --rm -i --pull=never --name N --network host --log-driver none"),
        *lines("--memory 101m --memory-swap 101m --cpus 2.5 --pids-limit 8"),
        *lines("--ulimit cpu=30:31 --ulimit nofile=256:256 --ulimit fsize=67108864:67108864"),
        *lines("--ulimit memlock=65536:65536 --ulimit sigpending=256:256 --ulimit msgqueue=0:0 --ulimit core=1:1"),
        *lines("--ulimit nproc=5000:5000"),
        *lines("--read-only --shm-size 16m --tmpfs /tmp:rw,exec,nosuid,nodev,size=5m --tmpfs /var/tmp:ro,size=4k"),
        *lines("--cap-drop ALL --security-opt no-new-privileges --user 65534:65534 -w /srv/base"),
        # The image knows best where its programs are, so PATH is not among them.
        *["-e", "A=1 2", "-e", "HOME=/tmp"],
        *["--mount", 'type=bind,"source=/opt/it","target=/opt/it",readonly'],
        *["--mount", 'type=bind,"source=/srv/base","target=/srv/base"'],
        *["--entrypoint", "/bin/sh", "--runtime=runsc", "--device", "/dev/x"],
        *["--", "own/image@sha256:0", "-c", SUPERVISOR, "N", "/opt/it/bin/it", "-x"],
    ]


def test_no_word_of_the_job_is_taken_for_an_option_of_the_engine():
    hostile = Job(
        argv=("--privileged", "--"),
        env={"--privileged": "--network=host"},
        files=FsPolicy(read=('/a,readonly=false"',), write=("/b:/etc",)),
        cwd="--privileged",
        image="--privileged",
    )
    argv = container.arguments(hostile, "N")
    options, words = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    assert words == ["--privileged", "-c", SUPERVISOR, "N", "--privileged", "--"]
    # What is the value of an option cannot be one.
    values = [options[place] for place in range(1, len(options)) if options[place - 1] in {"-w", "-e", "--mount"}]
    assert "--privileged" not in [word for word in options if word not in values]
    mounts = [next(csv.reader([value])) for value in values if value.startswith("type=")]
    assert mounts == [
        ["type=bind", 'source=/a,readonly=false"', 'target=/a,readonly=false"', "readonly"],
        ["type=bind", "source=/b:/etc", "target=/b:/etc"],
    ]


@pytest.mark.parametrize(
    ("engine", "options", "base"),
    [
        ("docker", (), ["docker"]),
        ("podman", ("--runtime", "runc"), ["podman", "--runtime", "runc"]),
    ],
)
def test_options_of_the_engine_stand_before_its_command(tmp_path, engine, options, base, zygote):
    assert Container(engine, zygote, env={}, state=tmp_path, options=options)._base() == base


SEATBELT = """(version 1)
(deny default)
(allow process-fork)
(allow process-exec (require-any
  (subpath "/usr/lib")
  (subpath "/usr/bin")
  (subpath "/usr/share")
  (subpath "/bin")
  (subpath "/sbin")
  (subpath "/System/Library")
  (subpath "/Library/Apple/System/Library")
  (subpath "/Library/Developer/CommandLineTools")
  (subpath "/private/var/db/dyld")
  (subpath "/private/var/db/timezone")
  (subpath "/private/etc/ssl/openssl.cnf")
  (subpath "/private/etc/localtime")
{paths}))
(allow signal (target same-sandbox))
(allow sysctl-read (require-any
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "kern.osrelease")
  (sysctl-name-prefix "kern.ostype")
  (sysctl-name-prefix "kern.osversion")
  (sysctl-name-prefix "kern.osproductversion")
  (sysctl-name-prefix "kern.argmax")
  (sysctl-name-prefix "vm.")
))
(allow file-read-metadata (literal "/") (literal "/private") (literal "/private/tmp") (literal "/tmp"))
(allow file-read* (require-any
  (subpath "/usr/lib")
  (subpath "/usr/bin")
  (subpath "/usr/share")
  (subpath "/bin")
  (subpath "/sbin")
  (subpath "/System/Library")
  (subpath "/Library/Apple/System/Library")
  (subpath "/Library/Developer/CommandLineTools")
  (subpath "/private/var/db/dyld")
  (subpath "/private/var/db/timezone")
  (subpath "/private/etc/ssl/openssl.cnf")
  (subpath "/private/etc/localtime")
{paths}  (literal "/dev/null")
  (literal "/dev/zero")
  (literal "/dev/random")
  (literal "/dev/urandom")
  (literal "/dev/dtracehelper")
))
(allow file-write* (require-any
{writable}  (literal "/dev/null")
))
(deny file-write-setugid)
{network}"""


@each_row(
    ("job", "paths", "writable", "network"),
    [
        (PLAIN, ["/private/tmp/run-1"], ["/private/tmp/run-1"], ""),
        (
            RICH,
            ["/opt/it", "/srv/base", "/private/tmp/run-1"],
            ["/srv/base", "/private/tmp/run-1"],
            "(allow network*)\n(allow system-socket)\n",
        ),
    ],
)
def test_seatbelt(job, paths, writable, network):
    shown = ["".join(f'  (subpath "{path}")\n' for path in some) for some in (paths, writable)]
    profile = SEATBELT.format(paths=shown[0], writable=shown[1], network=network)
    assert seatbelt.arguments(job, "/private/tmp/run-1") == ["/usr/bin/sandbox-exec", "-p", profile, *job.argv]


def test_a_profile_of_the_operators_replaces_the_generated_one():
    argv = seatbelt.arguments(PLAIN, "/private/tmp/run-1", profile="(version 1)")
    assert argv == ["/usr/bin/sandbox-exec", "-p", "(version 1)", "/usr/bin/python3", "-u", "-"]


def test_a_name_cannot_add_to_the_profile():
    job = Job(argv=("/bin/x",), files=FsPolicy(read=('/a"))\n(allow default)\\',)))
    assert '(subpath "/a\\"))\n(allow default)\\\\")' in seatbelt.profile_for(job, "/private/tmp/run-1")


@pytest.mark.skipif(sys.platform == "darwin", reason="where it works it is run by the tests of the tools")
async def test_seatbelt_is_of_macos_alone(tmp_path, zygote):
    probe = await seatbelt.Seatbelt(zygote, tmp_path).probe()
    assert (probe.ok, probe.reasons) == (False, ("not macOS",))
