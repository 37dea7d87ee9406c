"""What a container is like from inside. Prints it as JSON; the tests judge it before anything is tried there."""

import json
import os
import stat

NAMESPACES = ("ipc", "mnt", "net", "pid", "uts")
OWN = {"cgroup", "devpts", "mqueue", "proc", "sysfs", "tmpfs"}
"""Kinds of file systems that a container has of its own; what is writable in them is not the host's."""

KERNEL = (
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/vm/drop_caches",
    "/sys/kernel/uevent_seqnum",
)


def facts():
    """Return who this process is, where its namespaces and mounts are, and what of the kernel it may write."""
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    names = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
    mounts = []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            left, right = line.rstrip("\n").split(" - ")
            fields = left.split()
            mount = {"root": fields[3], "place": fields[4], "flags": fields[5].split(","), "more": fields[6:]}
            mounts.append(mount | {"kind": right.split()[0]})
    return {
        "status": {name: status[name].split() for name in names},
        "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES},
        "mounts": mounts,
        "kernel": [place for place in KERNEL if os.access(place, os.W_OK)],
        "disks": [name for name in os.listdir("/dev") if stat.S_ISBLK(os.lstat(f"/dev/{name}").st_mode)],
    }


def problems(seen, host, uid):
    """Return every way in which this is not a container that attempts may run in; empty is good.

    seen: facts() of the container. host: the namespaces of the host. uid: whom the container must be.
    """
    status, found = seen["status"], []
    if status["Uid"] != [uid] * 4 or status["Gid"] != [uid] * 4 or set(status["Groups"]) - {uid}:
        found.append(f"it is user {status['Uid']} of the groups {status['Gid'] + status['Groups']}")
    found += [f"it has {name}" for name in status if name.startswith("Cap") and int(status[name][0], 16)]
    if status["NoNewPrivs"] != ["1"]:
        found.append("new privileges are possible")
    if status["Seccomp"] != ["2"]:
        found.append("no system call is filtered")
    found += [f"it shares the host's {name} namespace" for name in NAMESPACES if seen["namespaces"][name] == host[name]]
    for row in seen["mounts"]:
        if row["kind"] not in OWN and "rw" in row["flags"]:
            found.append(f"{row['place']} shows {row['root']} of a {row['kind']}, writable")
        if row["kind"] not in OWN | {"overlay"} and row["root"] == "/":
            found.append(f"{row['place']} is the root of a {row['kind']} of the host")
        if any(word.startswith("shared:") for word in row["more"]):
            found.append(f"what is mounted below {row['place']} is mounted elsewhere too")
    found += [f"{place} can be written" for place in seen["kernel"]]
    found += [f"/dev/{name} is a disk" for name in seen["disks"]]
    return found


if __name__ == "__main__":
    print(json.dumps(facts()))
