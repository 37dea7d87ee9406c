"""Attempts to get out of a sandbox. Does nothing by itself: the one who runs it puts TARGETS in front.

Unconfined these attempts succeed: they run in the world that world.py makes, and nowhere else.

An attempt returns something true when it had an effect outside, or reached what it must not reach. Each runs in a
process of its own; what is killed or hangs has not succeeded. Prints {"name": [succeeded, note]} as JSON.
"""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import json
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
import time

ATTEMPTS = {}
T = {}
OURS = set()
ARM = os.uname().machine == "aarch64"
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def attempt(function):
    ATTEMPTS[function.__name__] = function
    return function


def syscall(number, *arguments):
    """number: of both architectures, or (x86_64, aarch64)."""
    if isinstance(number, tuple):
        number = number[ARM]
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *given)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def reached(number, *arguments):
    """Whether the kernel's own code was reached, whatever it then said."""
    try:
        syscall(number, *arguments)
    except OSError as e:
        return e.errno not in (errno.EPERM, errno.ENOSYS, errno.EACCES)
    return True


def read(path):
    with open(path, "rb") as file:
        return T["secret"].encode() in file.read()


def victim_files(name):
    """The same entry of every process that can be seen."""
    for pid in os.listdir("/proc"):
        if pid.isdecimal() and int(pid) != os.getpid():
            yield f"/proc/{pid}/{name}"


def any_secret(paths):
    for path in paths:
        try:
            if read(path):
                return True
        except OSError:
            continue
    return False


def gone(pid):
    """Whether a victim ends within a second. Its parent does not reap it."""
    for _ in range(20):
        with open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] in "ZX":
                return True
        time.sleep(0.05)


# ---- reading


@attempt
def read_absolute():
    return read(T["file"])


@attempt
def read_dots():
    return read("../" * 20 + T["file"].lstrip("/"))


@attempt
def read_symlink():
    os.symlink(T["file"], "link1")
    return read("link1")


@attempt
def read_hard_link():
    os.link(T["file"], "link2")
    return read("link2")


@attempt
def read_hard_link_in_place():
    os.link(T["file"], T["folder"] + "/hard")
    return read(T["folder"] + "/hard")


@attempt
def read_proc_root():
    return any_secret(path + T["file"] for path in victim_files("root"))


@attempt
def read_proc_cwd():
    return any_secret(path + "/" + os.path.basename(T["file"]) for path in victim_files("cwd"))


@attempt
def read_proc_fd():
    for folder in victim_files("fd"):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            try:
                if os.path.isfile(f"{folder}/{name}") and read(f"{folder}/{name}"):
                    return True
            except OSError:
                continue


@attempt
def read_environment_of_others():
    return any_secret(victim_files("environ"))


@attempt
def read_own_environment():
    return T["secret"] in str(os.environ) or read("/proc/self/environ")


@attempt
def read_command_lines():
    return any_secret(victim_files("cmdline"))


def remembered(content):
    """Whether what the server keeps stands there: of it we know how it begins, and a hash of the rest."""
    mark, length, digest = T["kept"]
    return any(hashlib.sha256(rest[:length]).hexdigest() == digest for rest in content.split(mark.encode())[1:])


def remembers(pid):
    """Whether a process has it in its heap or in other memory of its own."""
    with open(f"/proc/{pid}/maps") as file:
        areas = [line.split()[0].split("-") for line in file if " rw-p " in line]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for start, stop in areas:
            try:
                memory.seek(int(start, 16))
                if remembered(memory.read(min(int(stop, 16) - int(start, 16), 64 << 20))):
                    return True
            except (OSError, ValueError, OverflowError):
                continue


@attempt
def read_memory_of_others():
    for name in os.listdir("/proc"):
        try:
            if name.isdecimal() and int(name) != os.getpid() and remembers(name):
                return True
        except OSError:
            continue


@attempt
def see_other_processes():
    return read(f"/proc/{T['victim']}/cmdline")


@attempt
def list_folder():
    return os.path.basename(T["file"]) in os.listdir(T["folder"])


@attempt
def list_home():
    return bool(set(os.listdir(T["home"])) & set(T["home_names"]))


@attempt
def read_accounts():
    return b"root:" in open("/etc/passwd", "rb").read()


@attempt
def execute_outside():
    pid = os.fork()
    if pid == 0:
        os.execv(T["program"], [T["program"]])
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42


@attempt
def stat_outside():
    return os.stat(T["file"]).st_size > 0


@attempt
def readlink_outside():
    return bool(os.readlink(T["link"]))


@attempt
def attributes_outside():
    return os.listxattr(T["file"]) is not None


@attempt
def watch_outside():
    fd = syscall((294, 26), 0)
    return syscall((254, 27), fd, T["file"].encode(), 2) >= 0


@attempt
def see_mounts():
    with open("/proc/self/mountinfo") as file:
        return any(line.split()[4] == T["mount"] for line in file)


@attempt
def open_by_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount_id = ctypes.c_int()
    return syscall((303, 264), -100, T["file"].encode(), handle, ctypes.byref(mount_id), 0) == 0


@attempt
def inherit_descriptors():
    for fd in range(3, 200):
        try:
            if T["secret"].encode() in os.pread(fd, 4096, 0):
                return True
        except OSError:
            continue


@attempt
def inherit_sockets():
    for fd in range(3, 200):
        try:
            socket.socket(fileno=os.dup(fd)).getsockname()
            return True
        except OSError:
            continue


@attempt
def read_kernel_log():
    return reached((103, 116), 10, 0, 0)


@attempt
def read_kernel_memory():
    for path in ("/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore", "/dev/vda", "/dev/sda"):
        try:
            os.close(os.open(path, os.O_RDONLY))
            return True
        except OSError:
            continue


@attempt
def inherit_anything():
    """Any descriptor at all but the three streams."""
    for fd in range(3, 1024):
        if fd in OURS:
            continue
        try:
            fcntl.fcntl(fd, fcntl.F_GETFD)
            return True
        except OSError:
            continue


@attempt
def read_own_memory():
    """What the process that this one was forked from had in mind."""
    return remembers("self")


@attempt
def change_directory():
    os.chdir(T["folder"])
    return True


@attempt
def open_path_alone():
    return os.fstat(os.open(T["file"], os.O_PATH)).st_size > 0


@attempt
def ask_the_file_system():
    return os.statvfs(T["folder"]).f_blocks > 0


@attempt
def see_process_ids():
    return os.pidfd_open(T["victim"]) >= 0 and os.getpgid(T["victim"]) > 0


@attempt
def read_host_name():
    return os.uname().nodename == T["hostname"]


@attempt
def list_mapped_files():
    return bool(os.listdir(f"/proc/{T['victim']}/map_files"))


@attempt
def read_robust_list():
    head, length = ctypes.c_void_p(), ctypes.c_size_t()
    return syscall((274, 100), T["victim"], ctypes.byref(head), ctypes.byref(length)) == 0


@attempt
def watch_folder_by_signal():
    fd = os.open(T["folder"], os.O_RDONLY)
    fcntl.fcntl(fd, 1026, 2)  # F_NOTIFY
    return True


@attempt
def watch_the_programs_of_others():
    """Be told of what others do in a folder of the system, which may be read."""
    fd = os.open("/usr/bin", os.O_RDONLY)
    fcntl.fcntl(fd, 1026, 1)  # F_NOTIFY
    return True


# ---- writing


@attempt
def create_file():
    open(T["folder"] + "/created", "w").close()
    return os.path.exists(T["folder"] + "/created")


@attempt
def append_file():
    with open(T["w"]["append"], "a") as file:
        return file.write("x")


@attempt
def truncate_file():
    os.truncate(T["w"]["truncate"], 0)
    return os.stat(T["w"]["truncate"]).st_size == 0


@attempt
def open_truncating():
    os.close(os.open(T["w"]["open"], os.O_WRONLY | os.O_TRUNC))
    return True


@attempt
def rename_outside():
    os.rename(T["w"]["rename"], T["w"]["rename"] + ".moved")
    return True


@attempt
def rename_in():
    os.rename(T["w"]["steal"], "stolen")
    return os.path.exists("stolen")


@attempt
def rename_out():
    open("own", "w").close()
    os.rename("own", T["folder"] + "/planted")
    return True


@attempt
def unlink_outside():
    os.unlink(T["w"]["unlink"])
    return not os.path.exists(T["w"]["unlink"])


@attempt
def link_out():
    open("own2", "w").close()
    os.link("own2", T["folder"] + "/linked")
    return True


@attempt
def symlink_out():
    os.symlink("/etc", T["folder"] + "/sym")
    return True


@attempt
def make_folder():
    os.mkdir(T["folder"] + "/made")
    return True


@attempt
def remove_folder():
    os.rmdir(T["w"]["empty"])
    return not os.path.exists(T["w"]["empty"])


@attempt
def change_mode():
    os.chmod(T["w"]["mode"], 0o711)
    return os.stat(T["w"]["mode"]).st_mode & 0o7777 == 0o711


@attempt
def make_a_program_outside_run_as_its_owner():
    os.chmod(T["w"]["mode"], 0o4755)
    return os.stat(T["w"]["mode"]).st_mode & 0o7777 == 0o4755


@attempt
def change_mode_by_descriptor():
    fd = os.open(T["w"]["fmode"], os.O_RDONLY)
    os.fchmod(fd, 0o4755)
    return os.fstat(fd).st_mode & 0o7777 == 0o4755


@attempt
def change_owner():
    before = os.stat(T["w"]["owner"]).st_ctime_ns
    os.chown(T["w"]["owner"], os.getuid(), os.getgid())
    return os.stat(T["w"]["owner"]).st_ctime_ns != before


@attempt
def change_times():
    os.utime(T["w"]["times"], (1, 1))
    return os.stat(T["w"]["times"]).st_mtime == 1


@attempt
def change_attributes():
    os.setxattr(T["w"]["attributes"], "user.x", b"1")
    return os.getxattr(T["w"]["attributes"], "user.x") == b"1"


@attempt
def write_etc():
    os.close(os.open("/etc/toolbox-escape", os.O_CREAT | os.O_WRONLY))
    return True


@attempt
def write_usr():
    os.close(os.open("/usr/toolbox-escape", os.O_CREAT | os.O_WRONLY))
    return True


@attempt
def write_home():
    os.close(os.open(T["home"] + "/.profile", os.O_CREAT | os.O_WRONLY))
    return True


@attempt
def read_host_tmp():
    return read(T["tmp_file"])


@attempt
def write_shared_memory():
    with open("/dev/shm/" + T["shm"] + "-2", "r+") as file:
        return file.write("x")


@attempt
def read_shared_memory():
    return read("/dev/shm/" + T["shm"])


@attempt
def write_host_tmp():
    with open(T["tmp_file"] + "-2", "r+") as file:
        return file.write("x")


@attempt
def write_fifo():
    fd = os.open(T["fifo"], os.O_WRONLY | os.O_NONBLOCK)
    return os.write(fd, b"x")


@attempt
def make_device():
    os.mknod("device", 0o020666, os.makedev(1, 3))
    return True


@attempt
def make_device_outside():
    os.mknod(T["folder"] + "/device", 0o020666, os.makedev(1, 3))
    return True


@attempt
def write_proc_sys():
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches"):
        try:
            os.close(os.open(path, os.O_WRONLY))
            return True
        except OSError:
            continue


@attempt
def write_sysrq():
    os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))
    return True


@attempt
def write_cgroups():
    for top, _, files in os.walk("/sys/fs/cgroup"):
        for name in files:
            if name in ("cgroup.procs", "tasks"):
                try:
                    os.close(os.open(f"{top}/{name}", os.O_WRONLY))
                    return True
                except OSError:
                    continue
        if top.count("/") > 5:
            break


@attempt
def write_oom_of_others():
    os.close(os.open(f"/proc/{T['victim']}/oom_score_adj", os.O_WRONLY))
    return True


@attempt
def make_fifo_outside():
    os.mkfifo(T["folder"] + "/fifo2")
    return True


@attempt
def make_set_id_file():
    """In the scratch folder, but on a disk that others of the host see too."""
    os.close(os.open("set-id", os.O_CREAT | os.O_WRONLY, 0o4755))
    made = os.stat("set-id")
    return made.st_mode & 0o4000 and made.st_dev == T["device"]


@attempt
def make_set_id_file_by_mode():
    os.close(os.open("set-id1", os.O_CREAT | os.O_WRONLY, 0o755))
    os.chmod("set-id1", 0o4755)
    made = os.stat("set-id1")
    return made.st_mode & 0o4000 and made.st_dev == T["device"]


@attempt
def make_set_id_file_by_openat2():
    how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0)
    os.close(syscall(437, -100, b"set-id2", how, len(how)))
    made = os.stat("set-id2")
    return made.st_mode & 0o4000 and made.st_dev == T["device"]


@attempt
def make_set_id_node():
    os.mknod("set-id3", 0o104755)
    made = os.stat("set-id3")
    return made.st_mode & 0o4000 and made.st_dev == T["device"]


@attempt
def write_memory_file_of_process():
    fd = os.open(f"/proc/{T['victim']}/mem", os.O_RDWR)
    return os.pwrite(fd, b"escaped!", T["address"]) == 8


# ---- other processes: each has a victim of its own


@attempt
def kill_group():
    os.killpg(T["victims"]["group"], signal.SIGUSR1)
    return True


@attempt
def tkill_process():
    return syscall((200, 130), T["victims"]["tkill"], 10) == 0


@attempt
def queue_signal_to_thread():
    pid = T["victims"]["tgsigqueue"]
    info = struct.pack("iii", 10, 0, -1) + bytes(116)
    return syscall((297, 240), pid, pid, 10, info) == 0


@attempt
def sigio_to_group():
    a, b = socket.socketpair()
    fcntl.fcntl(a, fcntl.F_SETOWN, -T["victims"]["sigio_group"])
    fcntl.fcntl(a, 10, signal.SIGUSR1)  # F_SETSIG
    fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    b.send(b"x")
    return gone(T["victims"]["sigio_group"])


@attempt
def share_core_cookie():
    return libc.prctl(62, 1, T["victim"], 0, 0) == 0


@attempt
def nice_group():
    os.setpriority(os.PRIO_PGRP, T["victims"]["nice_group"], 5)
    return True


@attempt
def schedule_process_by_attributes():
    # Its niceness stays as it is: to lower it takes a privilege.
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = struct.pack("IIQiIQQQ", 48, 3, 0, nice, 0, 0, 0, 0)
    return syscall((314, 274), T["victims"]["attributes"], attributes, 0) == 0


@attempt
def migrate_pages_of_process():
    nodes = struct.pack("Q", 1)
    return syscall((256, 238), T["victim"], 64, nodes, nodes) >= 0


@attempt
def release_memory_of_process():
    """The call needs a dying process; any other answer than a refusal says that it got so far."""
    return reached(448, os.pidfd_open(T["victim"]), 0)


@attempt
def kill_process():
    os.kill(T["victims"]["kill"], signal.SIGUSR1)
    return True


@attempt
def tgkill_process():
    pid = T["victims"]["tgkill"]
    return syscall((234, 131), pid, pid, 10) == 0


@attempt
def queue_signal():
    info = struct.pack("iii", 10, 0, -1) + bytes(116)
    return syscall((129, 138), T["victims"]["sigqueue"], 10, info) == 0


@attempt
def pidfd_signal():
    fd = os.pidfd_open(T["victims"]["pidfd"])
    signal.pidfd_send_signal(fd, signal.SIGUSR1)
    return True


@attempt
def sigio_to_process():
    a, b = socket.socketpair()
    fcntl.fcntl(a, fcntl.F_SETOWN, T["victims"]["sigio"])
    fcntl.fcntl(a, 10, signal.SIGUSR1)  # F_SETSIG
    fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    b.send(b"x")
    return gone(T["victims"]["sigio"])


@attempt
def trace_process():
    return syscall((101, 117), 16, T["victims"]["trace"], 0, 0) == 0


@attempt
def trace_seize():
    return syscall((101, 117), 0x4206, T["victims"]["seize"], 0, 0) == 0


@attempt
def read_process_memory():
    local = ctypes.create_string_buffer(8)
    mine = struct.pack("QQ", ctypes.addressof(local), 8)
    theirs = struct.pack("QQ", T["address"], 8)
    return syscall((310, 270), T["victim"], mine, 1, theirs, 1, 0) == 8


@attempt
def write_process_memory():
    local = ctypes.create_string_buffer(8)
    mine = struct.pack("QQ", ctypes.addressof(local), 8)
    theirs = struct.pack("QQ", T["address"], 8)
    return syscall((311, 271), T["victim"], mine, 1, theirs, 1, 0) == 8


@attempt
def take_descriptor():
    return syscall(438, os.pidfd_open(T["victim"]), 1, 0) >= 0


@attempt
def compare_processes():
    return syscall((312, 272), os.getpid(), T["victim"], 2, 0, 0) >= 0


@attempt
def limit_process():
    resource.prlimit(T["victims"]["limit"], resource.RLIMIT_NOFILE, (5, 5))
    return True


@attempt
def nice_process():
    os.setpriority(os.PRIO_PROCESS, T["victims"]["nice"], 5)
    return True


@attempt
def nice_user():
    # Above what others here have been given: nobody's may be lowered.
    os.setpriority(os.PRIO_USER, 0, 6)
    return True


@attempt
def pin_process():
    os.sched_setaffinity(T["victims"]["pin"], [0])
    return True


@attempt
def schedule_process():
    os.sched_setscheduler(T["victims"]["schedule"], os.SCHED_BATCH, os.sched_param(0))
    return True


@attempt
def ioprio_process():
    return syscall((251, 30), 1, T["victims"]["ioprio"], (3 << 13)) == 0


@attempt
def move_pages_of_process():
    page = struct.pack("Q", T["address"] & ~0xFFF)
    status = ctypes.create_string_buffer(4)
    return syscall((279, 239), T["victim"], 1, page, None, status, 0) >= 0


@attempt
def madvise_process():
    vector = struct.pack("QQ", T["address"] & ~0xFFF, 4096)
    return syscall(440, os.pidfd_open(T["victim"]), vector, 1, 20, 0) >= 0


# ---- IPC


@attempt
def sysv_shared_memory():
    return syscall((29, 194), T["sysv"], 0, 0) >= 0


@attempt
def sysv_messages():
    return syscall((68, 186), T["sysv"], 0) >= 0


@attempt
def sysv_semaphores():
    return syscall((64, 190), T["sysv"], 0, 0) >= 0


@attempt
def posix_queue():
    return syscall((240, 180), T["queue"].encode(), os.O_RDWR, 0, 0) >= 0


@attempt
def add_key():
    return syscall((248, 217), b"user", b"toolbox", b"x", 1, -3) > 0


@attempt
def read_keyring():
    return syscall((250, 219), 0, -3, 1) > 0


@attempt
def unix_stream():
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(1)
        s.connect(T["stream"])
        return True


@attempt
def unix_datagram():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        return s.sendto(b"x", T["datagram"])


@attempt
def unix_abstract():
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(1)
        s.connect("\0" + T["abstract"])
        return True


@attempt
def unix_abstract_datagram():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        return s.sendto(b"x", "\0" + T["abstract"] + "d")


@attempt
def pair_sends_to_path():
    a, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return a.sendto(b"x", T["datagram"])


@attempt
def pair_connects_to_path():
    a, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.connect(T["datagram"])
    return a.send(b"x")


@attempt
def pair_sends_message_to_path():
    a, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return a.sendmsg([b"x"], [], 0, T["datagram"])


@attempt
def pair_sends_to_abstract():
    a, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return a.sendto(b"x", "\0" + T["abstract"] + "d")


@attempt
def see_names_of_keys():
    with open("/proc/keys") as file:
        return T["key"] in file.read()


@attempt
def find_key():
    """A key of the server's in the keyring of its user."""
    found = syscall((250, 219), 10, -4, b"user", T["key"].encode(), 0)
    content = ctypes.create_string_buffer(200)
    return syscall((250, 219), 11, found, content, 200) > 0 and T["secret"].encode() in content.value


@attempt
def pair_sends_many_to_path():
    a, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    name = struct.pack("H", socket.AF_UNIX) + T["datagram"].encode() + b"\0"
    place, data = ctypes.create_string_buffer(name), ctypes.create_string_buffer(b"x")
    vector = struct.pack("QQ", ctypes.addressof(data), 1)
    held = ctypes.create_string_buffer(vector)
    header = struct.pack(
        "QIxxxxQQQQIxxxxIxxxx", ctypes.addressof(place), len(name), ctypes.addressof(held), 1, 0, 0, 0, 0
    )
    return syscall((307, 269), a.fileno(), header, 1, 0) == 1


# ---- network


@attempt
def tcp4():
    return socket.create_connection(("127.0.0.1", T["tcp4"]), 1)


@attempt
def tcp6():
    return socket.create_connection(("::1", T["tcp6"]), 1)


@attempt
def udp4():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        return s.sendto(b"x", ("127.0.0.1", T["udp"]))


@attempt
def udp6():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
        return s.sendto(b"x", ("::1", T["udp"]))


@attempt
def udp_connected():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("127.0.0.1", T["udp"]))
        return s.send(b"x")


@attempt
def tcp_fast_open():
    with socket.socket() as s:
        return s.sendto(b"x", 0x20000000, ("127.0.0.1", T["tcp4"]))


@attempt
def mptcp():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as s:
        s.settimeout(1)
        s.connect(("127.0.0.1", T["tcp4"]))
        return True


@attempt
def udp_lite():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136) as s:
        return s.sendto(b"x", ("127.0.0.1", T["udp"]))


@attempt
def sctp():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)


@attempt
def ping():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)


@attempt
def raw_socket():
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)


@attempt
def packet_socket():
    return socket.socket(17, socket.SOCK_RAW, 0x300)


@attempt
def netlink():
    with socket.socket(16, socket.SOCK_RAW, 0) as s:
        s.bind((0, 0))
        return True


@attempt
def netlink_uevent():
    return socket.socket(16, socket.SOCK_DGRAM, 15)


@attempt
def vsock():
    return socket.socket(40, socket.SOCK_STREAM)


@attempt
def crypto_socket():
    return socket.socket(38, socket.SOCK_SEQPACKET)


@attempt
def other_families():
    """Any family beyond the ordinary ones: each is kernel code that few look at."""
    for family in set(range(3, 46)) - {10, 16, 17, 38, 40}:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            try:
                socket.socket(family, kind).close()
                return True
            except OSError:
                continue


@attempt
def bluetooth():
    return socket.socket(31, socket.SOCK_RAW, 1)


@attempt
def serve_tcp():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        return True


@attempt
def serve_udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return True


@attempt
def serve_unix():
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("own-socket")
        s.listen()
        return True


@attempt
def serve_abstract():
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("\0own-abstract")
        s.listen()
        return True


# ---- other ways into the kernel


def machine_code(code):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()


@attempt
def int80():
    # mov eax, 310 (unshare of i386); xor ebx, ebx; int 0x80; ret
    return not ARM and machine_code(b"\x53\xb8\x36\x01\x00\x00\x31\xdb\xcd\x80\x5b\xc3") == 0


@attempt
def x32():
    return not ARM and reached(0x40000000 | 41, 2, 1, 0)


@attempt
def io_uring():
    return syscall(425, 4, bytes(120)) >= 0


@attempt
def user_faults():
    return syscall((323, 282), 1) >= 0


@attempt
def bpf_program():
    return reached((321, 280), 0, bytes(72), 72)


@attempt
def perf_events():
    user_mode_alone = 1 << 5 | 1 << 6
    return (
        syscall((298, 241), struct.pack("IIQQQQQ", 1, 128, 0, 0, 0, 0, user_mode_alone) + bytes(80), 0, -1, -1, 0) >= 0
    )


@attempt
def fanotify():
    return syscall((300, 262), 0x200, 0) >= 0


@attempt
def kernel_module():
    return reached((175, 105), 0, 0, b"")


@attempt
def kexec():
    return reached((246, 104), 0, 0, 0, 0xFFFF)


@attempt
def swap():
    return reached((167, 224), b"/nonexistent", 0)


@attempt
def accounting():
    return reached((163, 89), b"/nonexistent")


@attempt
def reboot():
    return reached((169, 142), 1, 2, 3, 0)


@attempt
def clock():
    # An invalid time: refused, but by the kernel itself.
    return reached((227, 112), 0, struct.pack("qq", -1, -1))


@attempt
def io_ports():
    return not ARM and reached(172, 3)


@attempt
def local_descriptors():
    return not ARM and syscall(154, 0, ctypes.create_string_buffer(16), 16) >= 0


@attempt
def personality():
    return syscall((135, 92), 0x0400000) >= 0 and syscall((135, 92), 0xFFFFFFFF) == 0x0400000


@attempt
def quota():
    return reached((179, 60), 0x800001 << 8, 0, 0, 0)


@attempt
def memory_policy():
    return syscall((238, 237), 0, 0, 0) == 0


@attempt
def hostname():
    return syscall((170, 161), b"escaped", 7) == 0


@attempt
def domain_name():
    return syscall((171, 162), b"escaped", 7) == 0


@attempt
def memory_file():
    return syscall((319, 279), b"x", 0) >= 0


@attempt
def secret_memory():
    return syscall(447, 0) >= 0


@attempt
def terminal_injection():
    _master, slave = os.openpty()
    os.setsid()
    fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY
    fcntl.ioctl(slave, 0x5412, b"x")
    return True


@attempt
def controlling_terminal():
    return os.open("/dev/tty", os.O_RDWR)


# ---- privilege


@attempt
def privileges_can_grow():
    return libc.prctl(39, 0, 0, 0, 0) == 0


def capable():
    """Whether this process has any capability."""
    words = ctypes.create_string_buffer(24)
    syscall((125, 90), struct.pack("Ii", 0x20080522, 0), words)
    return any(words.raw)


@attempt
def capabilities():
    return capable()


@attempt
def capabilities_of_a_program_of_root():
    os.setresuid(0, 0, 0)
    code = f"import ctypes, sys\nctypes.CDLL(None).syscall({(125, 90)[ARM]}, HEADER, words)"
    code = code.replace("HEADER", repr(struct.pack("Ii", 0x20080522, 0)))
    code = (
        f"words = None\nimport ctypes\nwords = ctypes.create_string_buffer(24)\n{code}\nsys.exit(42 * any(words.raw))"
    )
    pid = os.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", code])
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42


@attempt
def bounding_set():
    return libc.prctl(23, 21, 0, 0, 0) == 1


@attempt
def real_root():
    with open("/proc/self/uid_map") as file:
        return os.getuid() == 0 and file.read().split()[:2] == ["0", "0"]


@attempt
def become_root():
    os.setresuid(0, 0, 0)
    return os.getuid() == 0 and capable()


@attempt
def unshare_user():
    return syscall((272, 97), 0x10000000) == 0


@attempt
def unshare_everything():
    return syscall((272, 97), 0x7E020000) == 0


@attempt
def mount_in_a_user_namespace():
    os.makedirs("mountpoint3", exist_ok=True)
    syscall((272, 97), 0x10020000)
    return syscall((165, 40), b"x", b"mountpoint3", b"tmpfs", 0, None) == 0


@attempt
def serve_in_a_user_namespace():
    syscall((272, 97), 0x50000000)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, 1):
        return True


@attempt
def unshare_mounts():
    return syscall((272, 97), 0x20000) == 0


@attempt
def unshare_time():
    return syscall((272, 97), 0x80) == 0


@attempt
def unshare_network():
    return syscall((272, 97), 0x40000000) == 0


def cloned(result):
    if result == 0:
        os._exit(0)
    return result > 0


@attempt
def clone_user():
    return cloned(syscall((56, 220), 0x10000000 | 17, 0, 0, 0, 0))


@attempt
def clone_pid_and_user():
    return cloned(syscall((56, 220), 0x30000000 | 17, 0, 0, 0, 0))


@attempt
def clone3_user():
    return cloned(syscall(435, struct.pack("8Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64))


@attempt
def enter_namespace():
    for path in victim_files("ns/net"):
        try:
            return syscall((308, 268), os.open(path, os.O_RDONLY), 0) == 0
        except OSError:
            continue


@attempt
def enter_namespace_by_pidfd():
    return syscall((308, 268), os.pidfd_open(T["victim"]), 0x40000000) == 0


@attempt
def mount_tmpfs():
    os.makedirs("mountpoint", exist_ok=True)
    return syscall((165, 40), b"x", b"mountpoint", b"tmpfs", 0, None) == 0


@attempt
def bind_mount():
    os.makedirs("mountpoint2", exist_ok=True)
    return syscall((165, 40), b"/", b"mountpoint2", None, 4096 | 16384, None) == 0


@attempt
def remount():
    return syscall((165, 40), None, b"/tmp", None, 32 | 4096 | 1 | 2 | 4, None) == 0


@attempt
def unmount():
    return reached((166, 39), b"/nonexistent", 0)


@attempt
def new_mount_api():
    return syscall(430, b"tmpfs", 0) >= 0


@attempt
def open_tree():
    return syscall(428, -100, b"/", 1 | 0x8000) >= 0


@attempt
def mount_attributes():
    return reached(442, -100, b"/", 0x10000000, struct.pack("4Q", 0, 0, 0, 0), 32)


@attempt
def list_mounts():
    return reached(458, struct.pack("IIQQ", 24, 0, 0xFFFFFFFFFFFFFFFF, 0), ctypes.create_string_buffer(800), 100, 0)


@attempt
def change_root():
    os.chroot("/")
    return True


@attempt
def change_root_escape():
    os.makedirs("jail", exist_ok=True)
    os.chroot("jail")
    for _ in range(20):
        os.chdir("..")
    os.chroot(".")
    return read(T["file"])


@attempt
def pivot_root():
    return reached((155, 41), b"/nonexistent", b"/nonexistent")


@attempt
def set_user_id_program():
    """A set-user-id program of root that says who it is."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(w, 1)
        os.execv(T["suid"], [T["suid"], "-u"])
    os.close(w)
    said = os.read(r, 100)
    os.waitpid(pid, 0)
    return os.getuid() != 0 and said.strip() == b"0"


# ---- limits


@attempt
def raise_limits():
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 4096


@attempt
def lock_memory():
    page = mmap.mmap(-1, 4 << 20)
    return libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(page))), 4 << 20) == 0


@attempt
def many_descriptors():
    held = [os.dup(0) for _ in range(400)]
    return len(held) == 400


@attempt
def core_dump():
    """At a limit of 0 a handler of the host's still gets the whole memory through its pipe, at 1 it does not."""
    return resource.getrlimit(resource.RLIMIT_CORE) != (1, 1)


@attempt
def real_time():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    return True


@attempt
def raise_priority():
    return os.nice(-1) < 0


@attempt
def all_processors():
    os.sched_setaffinity(0, range(64))
    return len(os.sched_getaffinity(0)) > 1


@attempt
def large_file():
    with open("large", "wb") as file:
        file.truncate(1 << 30)
    return os.stat("large").st_size == 1 << 30


@attempt
def lower_core_limit():
    """To 0, at which a handler of core dumps is started by the host."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return True


@attempt
def lower_core_limit_by_prlimit():
    return syscall((302, 261), 0, resource.RLIMIT_CORE, struct.pack("QQ", 0, 0), 0) == 0


@attempt
def less_likely_to_be_killed():
    """The kernel's own choice when memory is short."""
    with open("/proc/self/oom_score_adj", "r+") as file:
        before = int(file.read())
        file.seek(0)
        file.write("0")
        file.flush()
        file.seek(0)
        return int(file.read()) < before


@attempt
def many_pending_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    info = struct.pack("iii", signal.SIGRTMIN, 0, -1) + bytes(116)
    return all(syscall((129, 138), os.getpid(), int(signal.SIGRTMIN), info) == 0 for _ in range(1000))


@attempt
def rings_of_the_machine():
    """Their number is limited for all programs of the machine together."""
    ring = ctypes.c_ulong()
    return syscall((206, 0), 64, ctypes.byref(ring)) == 0


@attempt
def watchers_of_the_user():
    """Their number is limited for all programs of a user together, in every user namespace."""
    return libc.inotify_init1(0) >= 0


@attempt
def terminals_of_the_machine():
    """Their number is limited for all containers of the machine together."""
    return os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY) >= 0


def judge(function):
    """Run one attempt in a process of its own."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        OURS.add(w)
        me = os.getpid()
        signal.alarm(8)
        if T.get("own_mounts"):
            # Of a control: what it mounts is nobody else's.
            syscall((272, 97), 0x20000)
        try:
            note = "", bool(function())
        except BaseException as e:  # noqa: BLE001 - an attempt that raises, whatever it is, has not succeeded
            note = f"{type(e).__name__}: {e}"[:100], False
        try:
            # A child of the attempt's own that could not become another program ends up here too.
            if os.getpid() == me:
                os.write(w, json.dumps(note).encode())
        finally:
            os._exit(0)
    os.close(w)
    select.select([r], [], [], 10)
    data = os.read(r, 4096)
    os.close(r)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if not data:
        return [False, f"status {status}"]
    note, succeeded = json.loads(data)
    return [succeeded, note]


def main(targets):
    T.update(targets)
    only = T.get("only") or list(ATTEMPTS)
    found = {}
    for name in only:
        began = time.monotonic()
        found[name] = [*judge(ATTEMPTS[name]), round(time.monotonic() - began, 2)]
    sys.stdout.write("\n" + json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(TARGETS)  # noqa: F821 - put in front of this text by the one who runs it
