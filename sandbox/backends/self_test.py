"""The attack that a back end has to contain, as programs that run inside it.

Each line that they print is a success of theirs. Most successes are seen from outside instead (probes.py): a
connection, a signal, a file, a byte in a pipe. "forking" says that everything before the many processes was tried,
"done" that these were too.
"""

import json
from collections.abc import Mapping
from typing import Any

_PYTHON = r"""
import ctypes, os, signal, socket, sys, time
targets = TARGETS
libc = ctypes.CDLL(None, use_errno=True)
def attempt(act):
    try:
        found = act()
    except BaseException:
        return
    if found:
        print(act.__name__, flush=True)
def file_read():
    with open(targets["canary"]) as file:
        return targets["secret"] in file.read()
def file_written():
    with open(targets["outside"], "w") as file:
        return bool(file.write("x"))
def home_listed():
    return bool(set(os.listdir(targets["home"])) & set(targets["home_names"]))
def loopback():
    socket.create_connection(("127.0.0.1", targets["port"]), 2)
def abstract_socket():
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(2)
        s.connect("\0" + targets["abstract"])
def datagram_pair():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.sendto(b"x", targets["datagram"])
def datagram_reconnected():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.connect(targets["datagram"])
    a.send(b"x")
def signal_sent():
    os.kill(targets["pid"], signal.SIGKILL)
def environment_read():
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/environ") as file:
                    if targets["secret"] in file.read():
                        return True
            except OSError:
                continue
def own_environment():
    return targets["secret"] in str(os.environ)
def inherited_descriptor():
    for fd in range(3, 64):
        try:
            os.write(fd, b"x")
        except OSError:
            continue
def memory_file():
    return targets["memfd"] and libc.memfd_create(b"x", 0) >= 0
def user_namespace():
    return libc.unshare(0x10000000) == 0
def many_processes():
    born = []
    try:
        for _ in range(targets["forks"]):
            pid = os.fork()
            if pid == 0:
                time.sleep(20)
                os._exit(0)
            born.append(pid)
    except OSError:
        pass
    for pid in born:
        os.kill(pid, signal.SIGKILL)
    return len(born) >= targets["forks"]
for act in (file_read, file_written, home_listed, loopback, abstract_socket, datagram_pair, datagram_reconnected,
            environment_read, signal_sent, own_environment, inherited_descriptor, memory_file, user_namespace):
    attempt(act)
print("forking", flush=True)
attempt(many_processes)
print("done", flush=True)
"""

_SHELL = r"""
secret=SECRET
grep -qs "$secret" CANARY && echo file_read
(: > OUTSIDE) 2>/dev/null && echo file_written
cat /proc/[0-9]*/environ 2>/dev/null | grep -qs "$secret" && echo environment_read
kill -9 PID 2>/dev/null && echo signal_sent
for device in /sys/class/net/*; do [ "${device##*/}" = lo ] || [ "${device##*/}" = "*" ] || echo network_device; done
for fd in 3 4 5 6 7 8 9; do eval "echo x >&$fd" 2>/dev/null; done
echo "forking"
# A shell that cannot fork exits, so another one tries.
( born=0 pids= alive=0
while [ $born -lt FORKS ]; do sleep 5 & pids="$pids $!" born=$((born + 1)); done
for pid in $pids; do kill -9 $pid && alive=$((alive + 1)); done
[ "$alive" -ge FORKS ] && echo many_processes ) 2>/dev/null
echo "done"
"""


def python(targets: Mapping[str, Any]) -> bytes:
    """Return the attack in Python, for a list of targets."""
    return _PYTHON.replace("TARGETS", repr(json.loads(json.dumps(dict(targets)))), 1).encode()


def shell(targets: Mapping[str, Any]) -> bytes:
    """Return the part of the attack that a bare shell can do, for images without Python."""
    text = _SHELL
    names = {"SECRET": "secret", "CANARY": "canary", "OUTSIDE": "outside", "PID": "pid", "FORKS": "forks"}
    for place, name in names.items():
        text = text.replace(place, f"'{targets[name]}'" if isinstance(targets[name], str) else str(targets[name]))
    return text.encode()
