"""Programs that a sandbox has to bring to an end in good order, and what is told of each end. Bounded by themselves."""

MIB = 1 << 20
LIMITS = {
    "wall": 6.0, "cpu": 6.0, "memory": 96 * MIB, "data": 96 * MIB, "processes": 40, "disk": 16 * MIB,
    "file_size": 8 * MIB, "files": 64, "inodes": 500, "output": 64 * MIB,
}  # fmt: skip
SHORT = {"wall": 0.7}

PROGRAMS: dict[str, tuple[str, dict[str, float]]] = {
    "ends well": ("print('hi')", {}),
    "ends with a status": ("raise SystemExit(7)", {}),
    "a null byte in the source": ("print(1)\0", {}),
    "no utf-8 in the source": ("print('\udcff')", {}),
    "binary output": ("import os\nos.write(1, bytes(range(256)) * 100)", {}),
    "output above its limit": ("while True: print('x' * 65536)", {}),
    "a gigabyte of output": (
        (
            "import os\ndata = bytes(1 << 20)\nfor _ in range(1024):\n  at = 0\n"
            "  while at < len(data): at += os.write(1, data[at:])"
        ),
        {"output": 1024 * MIB, "wall": 60, "cpu": 60},
    ),
    "closes its output": ("import os, time\nos.close(1)\nos.close(2)\ntime.sleep(0.2)\nos._exit(3)", {}),
    "writes to closed output": ("import os\nos.close(1)\nos.write(1, b'x')", {}),
    "reads what is not there": ("input()", {}),
    "forks for ever": ("import os\nfor _ in range(2000): os.fork()", {}),
    "forks whatever comes": (
        (
            "import os, time\nend = time.monotonic() + 5\nwhile time.monotonic() < end:\n  try: os.fork()\n"
            "  except OSError: pass"
        ),
        SHORT,
    ),
    "starts threads for ever": (
        (
            "import threading\ngo = threading.Event()\n"
            "for _ in range(2000): threading.Thread(target=go.wait, daemon=True).start()"
        ),
        {},
    ),
    "takes memory": ("x = bytearray(300 << 20)", {}),
    "takes memory in parts": ("x = [bytearray(1 << 20) for _ in range(300)]", {}),
    "takes memory with others": (
        "import os, time\nfor _ in range(3): os.fork()\nx = bytearray(40 << 20)\ntime.sleep(5)",
        {},
    ),
    "takes shared memory": (
        "import mmap, time\nm = mmap.mmap(-1, 200 << 20)\nfor i in range(0, len(m), 4096): m[i] = 1\ntime.sleep(5)",
        {},
    ),
    "aborts with much memory": ("import os\nx = bytearray(85 << 20)\nos.abort()", {}),
    "opens files for ever": ("import os\nwhile True: os.dup(0)", {}),
    "makes files for ever": (
        "import time\nfor n in range(2000): open(f'f{n}', 'w').close()\ntime.sleep(5)",
        {},
    ),
    "fills the disk": (
        (
            "import time\nfor n in range(6):\n  with open(f'f{n}', 'wb') as f:\n    for _ in range(7): f.write(bytes(1 << 20))\n"
            "time.sleep(5)"
        ),
        {},
    ),
    "makes a large file": ("with open('f', 'wb') as f:\n  for _ in range(40): f.write(bytes(1 << 20))", {}),
    "makes a large file and listens to the signal": (
        (
            "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
            "with open('f', 'wb') as f:\n  for _ in range(40): f.write(bytes(1 << 20))"
        ),
        {},
    ),
    "runs for ever": ("print('begun', flush=True)\nwhile True: pass", SHORT),
    "sleeps for ever": ("print('begun', flush=True)\nimport time\ntime.sleep(60)", SHORT),
    "takes processor time": ("while True: pass", {"cpu": 1, "wall": 20}),
    "takes processor time whatever comes": (
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        {"cpu": 1, "wall": 20},
    ),
    "ignores signals": (
        "import signal, time\nfor n in (1, 2, 3, 13, 15): signal.signal(n, signal.SIG_IGN)\ntime.sleep(60)",
        SHORT,
    ),
    "kills itself": ("import os\nos.kill(os.getpid(), 9)", {}),
    "ends itself by SIGTERM": ("import os\nos.kill(os.getpid(), 15)", {}),
    "crashes": ("import ctypes\nctypes.string_at(0)", {}),
    "calls another kernel": (
        (
            "import ctypes, mmap\npage = mmap.mmap(-1, 4096, prot=7)\n"
            "page.write(b'\\xb8\\x36\\x01\\x00\\x00\\x31\\xdb\\xcd\\x80\\xc3')\n"
            "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()"
        ),
        {},
    ),
    "leaves a child with its pipes": (
        "import subprocess\nsubprocess.Popen(['/bin/sleep', '60'])\nprint('bye')",
        {},
    ),
    "leaves a daemon with its pipes": (
        (
            "import os\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: os.execv('/bin/sleep', ['sleep', '60'])\n"
            "  os._exit(0)\nos.wait()\nprint('bye')"
        ),
        {},
    ),
    "stops itself": ("import os\nos.kill(os.getpid(), 19)", SHORT),
    "removes its folder": ("import os, shutil\nshutil.rmtree('.', ignore_errors=True)\nprint('ok')", {}),
    "takes rights from its folder": (
        "import os\nos.makedirs('a/b/c')\nopen('a/b/c/d', 'w').close()\nos.chmod('a/b', 0)\nos.chmod('a', 0)\nprint('ok')",
        {},
    ),
    "leaves a deep folder": (
        "import os\nfor _ in range(300):\n  os.mkdir('deep')\n  os.chdir('deep')\nprint('ok')",
        {},
    ),
    "leaves odd names": (
        "import os\nopen(b'\\xff\\n\\x1b[31m', 'w').close()\nopen('a' * 255, 'w').close()\nos.mkfifo('fifo')\nprint('ok')",
        {},
    ),
}
