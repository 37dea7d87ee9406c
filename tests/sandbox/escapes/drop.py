"""Gives up every privilege for good, checks that it has none, and becomes another program.

Run as `python -I -S drop.py UID PROGRAM ARGUMENT...`, so that what follows never has a privilege.
"""

import contextlib
import ctypes
import os
import resource
import sys

PR_SET_NO_NEW_PRIVS = 38

# What an ordinary user of a desktop may have; without it some limits could not be shown to be the sandbox's.
GENEROUS = {resource.RLIMIT_MEMLOCK: 64 << 20, resource.RLIMIT_RTPRIO: 1, resource.RLIMIT_NICE: 30}


def main(uid: int, argv: list[str]) -> None:
    if os.geteuid() == 0:
        for kind, value in GENEROUS.items():
            # A root whose limits somebody else has set has them too, and the attempts on these limits no control.
            with contextlib.suppress(ValueError):
                resource.setrlimit(kind, (value, value))
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise SystemExit("no_new_privs cannot be set")
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    privileged = [name for name in ("CapPrm", "CapEff", "CapAmb") if int(status[name], 16)]
    if 0 in (*os.getresuid(), *os.getresgid()) or privileged or status["NoNewPrivs"] != "1":
        raise SystemExit("privileges are left")
    os.chdir("/")
    os.execve(argv[0], argv, {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"})


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
