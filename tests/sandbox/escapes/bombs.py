"""Programs that take more than they were given, or stay longer. Each is bounded by itself.

A greedy one prints ESCAPED when it had what it must not have. A lasting one starts something that its end does not
end: processes whose command line holds MARK. All run under LIMITS.
"""

MIB = 1 << 20
LIMITS = {
    "wall": 15.0, "cpu": 1.0, "memory": 96 * MIB, "data": 96 * MIB, "processes": 40, "disk": 16 * MIB,
    "file_size": 8 * MIB, "files": 64, "inodes": 500, "output": 8 * MIB,
}  # fmt: skip

_HOLD = """
import os, sys, time
def hold(still=lambda: True):
    # What watches looks every 50 ms.
    time.sleep(0.4)
    if still():
        print("ESCAPED", flush=True)
def all_live():
    # The kernel ends one of them to make room for the next, which is no escape.
    return os.waitpid(-1, os.WNOHANG)[0] == 0
"""

GREEDY = {
    "many_processes": """
        import os, time
        born = []
        try:
            for _ in range(60):
                pid = os.fork()
                if pid == 0:
                    time.sleep(20)
                    os._exit(0)
                born.append(pid)
        except OSError:
            pass
        if len(born) == 60:
            hold()
        for pid in born:
            os.kill(pid, 9)
    """,
    "many_threads": """
        import threading
        done = threading.Event()
        threads = [threading.Thread(target=done.wait, daemon=True) for _ in range(60)]
        for thread in threads:
            thread.start()
        hold()
        done.set()
    """,
    "memory_of_one": """
        held = bytearray(160 << 20)
        hold()
    """,
    "memory_of_several": """
        import os
        r, w = os.pipe()
        for _ in range(4):
            if os.fork() == 0:
                held = bytearray(48 << 20)
                os.write(w, b"x")
                time.sleep(2)
                os._exit(0)
        os.close(w)
        for _ in range(4):
            assert os.read(r, 1)
        hold(all_live)
    """,
    "memory_of_several_without_their_first_threads": """
        import ctypes, os, threading
        libc = ctypes.CDLL(None)
        number = 93 if os.uname().machine == "aarch64" else 60
        r, w = os.pipe()
        def keep():
            # By then /proc shows a dead process.
            time.sleep(0.2)
            held = b"x" * (48 << 20)
            os.write(w, b"x")
            time.sleep(2)
            os._exit(0)
        for _ in range(4):
            if os.fork() == 0:
                threading.Thread(target=keep).start()
                libc.syscall(number, 0)
        os.close(w)
        for _ in range(4):
            assert os.read(r, 1)
        hold(all_live)
    """,
    "memory_shared": """
        import mmap
        held = mmap.mmap(-1, 160 << 20)
        for at in range(0, len(held), 4096):
            held[at] = 1
        hold()
    """,
    "memory_shared_but_not_mapped_in": """
        import mmap
        held = []
        for _ in range(10):
            part = mmap.mmap(-1, 16 << 20)
            for at in range(0, len(part), 4096):
                part[at] = 1
            part.madvise(mmap.MADV_DONTNEED)
            held.append(part)
        assert all(part[0] == 1 for part in held)
        hold()
    """,
    "memory_of_a_file_without_a_name": """
        import ctypes, os
        libc = ctypes.CDLL(None)
        fd = libc.memfd_create(b"x", 0)
        assert fd >= 0
        for _ in range(160):
            os.write(fd, bytes(1 << 20))
        hold()
    """,
    "memory_of_sockets": """
        import os, socket
        r, w = os.pipe()
        for _ in range(16):
            if os.fork() == 0:
                held, sent = [], 0
                for _ in range(28):
                    pair = socket.socketpair()
                    held.append(pair)
                    for end in pair:
                        end.setblocking(False)
                        try:
                            while True:
                                sent += end.send(bytes(65536))
                        except OSError:
                            pass
                os.write(w, b"%d " % sent)
                time.sleep(1)
                os._exit(0)
        os.close(w)
        with open(r) as said:
            sent = sum(map(int, said.read().split()))
        if sent > 96 << 20 and not any(os.wait()[1] for _ in range(16)):
            print("ESCAPED", flush=True)
    """,
    "memory_of_mappings_cut_down": """
        import ctypes
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        size = 16 << 20
        held = []
        for _ in range(10):
            at = libc.mmap(None, ctypes.c_size_t(size), 3, 0x21, -1, ctypes.c_long(0))
            ctypes.memset(at, 1, size)
            libc.munmap(ctypes.c_void_p(at + 4096), ctypes.c_size_t(size - 4096))
            held.append(at)
        hold()
    """,
    "disk": """
        for number in range(40):
            with open(f"part{number}", "wb") as file:
                file.write(bytes(1 << 20))
        hold()
    """,
    "disk_without_a_name": """
        import os
        held = []
        for number in range(6):
            fd = os.open("part", os.O_CREAT | os.O_RDWR)
            os.unlink("part")
            for _ in range(7):
                os.write(fd, bytes(1 << 20))
            held.append(fd)
        hold()
    """,
    "disk_in_flight": """
        import os, socket
        a, b = socket.socketpair()
        for number in range(4):
            fd = os.open("part", os.O_CREAT | os.O_RDWR)
            os.unlink("part")
            for _ in range(7):
                os.write(fd, bytes(1 << 20))
            socket.send_fds(a, [b"x"], [fd])
            os.close(fd)
        hold()
    """,
    "disk_in_attributes": """
        import os, struct
        # Entries of an access list, of which the kernel holds 64 KiB a folder twice.
        user = struct.pack("<HHI", 2, 7, os.getuid())
        rights = [struct.pack("<HHI", tag, 7, 0xFFFFFFFF) for tag in (1, 4, 16, 32)]
        text = struct.pack("<I", 2) + rights[0] + user * 8187 + b"".join(rights[1:])
        for number in range(200):
            os.mkdir(f"folder{number}")
            for kind in ("access", "default"):
                os.setxattr(f"folder{number}", f"system.posix_acl_{kind}", text)
                assert len(os.getxattr(f"folder{number}", f"system.posix_acl_{kind}")) == len(text)
        hold()
    """,
    "shared_memory_folder": """
        for number in range(8):
            with open(f"/dev/shm/part{number}", "wb") as file:
                file.write(bytes(7 << 20))
        hold()
    """,
    "other_folders": """
        import os
        for top in ("/", "/dev", "/run", "/var", "/var/tmp", "/usr", "/home", "/root", "/srv", "/proc", "/sys"):
            try:
                with open(f"{top}/toolbox-part", "wb") as file:
                    file.write(bytes(1 << 20))
            except OSError:
                continue
            hold()
            break
    """,
    "large_file": """
        with open("large", "wb") as file:
            for _ in range(10):
                file.write(bytes(1 << 20))
        hold()
    """,
    "inodes": """
        import os
        for number in range(1500):
            os.close(os.open(f"file{number}", os.O_CREAT | os.O_WRONLY))
        hold()
    """,
    "inodes_of_folders": """
        import os
        for number in range(1500):
            os.mkdir(f"folder{number}")
        hold()
    """,
    "descriptors": """
        import os
        held = [os.dup(0) for _ in range(100)]
        hold()
    """,
    "output": """
        for _ in range(16):
            sys.stdout.write("x" * (1 << 20))
        sys.stdout.flush()
        hold()
    """,
    "processor_time": """
        began = time.process_time()
        while time.process_time() - began < 1.6:
            pass
        hold()
    """,
}

_NOT_DUMPABLE = """
        import ctypes
        # PR_SET_DUMPABLE, after which /proc tells another process of the same user less.
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
"""
GREEDY |= {
    "memory_of_several_that_hide_it": _NOT_DUMPABLE + GREEDY["memory_of_several"],
    "memory_shared_that_is_hidden": _NOT_DUMPABLE + GREEDY["memory_shared_but_not_mapped_in"],
}

LASTING = {
    "child": """
        subprocess.Popen(SLEEP)
        time.sleep(20)
    """,
    "orphan_of_a_program_that_ended": """
        subprocess.Popen(SLEEP, stdin=N, stdout=N, stderr=N)
    """,
    "orphan_that_holds_the_pipes": """
        subprocess.Popen(SLEEP)
    """,
    "session_of_its_own": """
        subprocess.Popen(SLEEP, start_new_session=True, stdin=N, stdout=N, stderr=N)
        time.sleep(20)
    """,
    "daemon": """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 3)
                os.execv(SLEEP[0], SLEEP)
            os._exit(0)
        os.wait()
    """,
    "daemon_that_outlives_the_time": """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 3)
                os.execve(SLEEP[0], SLEEP, {})
            os._exit(0)
        os.wait()
        time.sleep(20)
    """,
    "ignores_signals": """
        for number in (1, 2, 3, 13, 15):
            signal.signal(number, signal.SIG_IGN)
        subprocess.Popen(SLEEP, restore_signals=False, stdin=N, stdout=N, stderr=N)
        time.sleep(20)
    """,
    "stopped": """
        # In a group whose end the kernel would not tell with a hang-up.
        child = subprocess.Popen(SLEEP, start_new_session=True, stdin=N, stdout=N, stderr=N)
        os.kill(child.pid, signal.SIGSTOP)
    """,
    "sibling": """
        import ctypes
        libc = ctypes.CDLL(None)
        number = 220 if os.uname().machine == "aarch64" else 56
        # CLONE_PARENT: whose child it is, is not for this program to end.
        if libc.syscall(number, 0x8000 | 17, 0, 0, 0, 0) == 0:
            os.setsid()
            os.closerange(0, 3)
            os.execve(SLEEP[0], SLEEP, {})
        time.sleep(0.2)
    """,
    "without_its_first_thread": """
        lines = [
            "import ctypes, os, threading, time",
            "if os.fork(): os._exit(0)",
            "os.setsid()",
            "threading.Thread(target=time.sleep, args=(8,)).start()",
            "ctypes.CDLL(None).syscall(93 if os.uname().machine == 'aarch64' else 60, 0)",
        ]
        code = chr(10).join(lines)
        subprocess.Popen([sys.executable, "-I", "-S", "-c", code, SLEEP[1]], stdin=N, stdout=N, stderr=N)
        time.sleep(20)
    """,
    "not_dumpable": """
        lines = [
            "import ctypes, os, time",
            "if os.fork(): os._exit(0)",
            "os.setsid()",
            # PR_SET_DUMPABLE: its environment is not for others to read any more.
            "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)",
            "time.sleep(8)",
        ]
        code = chr(10).join(lines)
        subprocess.Popen([sys.executable, "-I", "-S", "-c", code, SLEEP[1]], stdin=N, stdout=N, stderr=N)
        time.sleep(20)
    """,
    "chain": """
        # Each forks the next and dies: whoever kills what it has seen is always one late.
        lines = [
            "import os, time",
            "os.setsid()",
            "end = time.monotonic() + 8",
            "while time.monotonic() < end:",
            "    if os.fork(): os._exit(0)",
            "    time.sleep(0.002)",
        ]
        code = chr(10).join(lines)
        subprocess.Popen([sys.executable, "-I", "-S", "-c", code, SLEEP[1]], stdin=N, stdout=N, stderr=N)
        time.sleep(20)
    """,
}


def greedy(name: str) -> bytes:
    """Return the program of a greedy one."""
    return (_HOLD + _flush_left(GREEDY[name])).encode()


def lasting(name: str, mark: str) -> bytes:
    """Return the program of a lasting one, whose processes are /bin/sleep with the mark as its argument."""
    begin = f"import os, signal, subprocess, sys, time\nN = subprocess.DEVNULL\nSLEEP = ['/bin/sleep', {mark!r}]\n"
    return (begin + _flush_left(LASTING[name])).encode()


def _flush_left(text: str) -> str:
    import textwrap

    return textwrap.dedent(text)
