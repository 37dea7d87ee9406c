"""Lines that a shell might read otherwise than we do: python shell_fuzz.py SEED COUNT [CHECKED [RUN]] looks for one for as long as asked.

Nobody has read these lines, so they run in the world of the escape attempts and nowhere else: an ordinary user in
bubblewrap, on file systems that are its own or read-only (tests/sandbox/escapes/world.py).
"""

import contextlib
import importlib.util
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.shell.rules import check

CODE = Path("/run/code")
"""Where the world has this file; on no other machine's disk."""

BOOT = """
import sys, zipfile
with open(0, "rb", closefd=False) as file, zipfile.ZipFile(file) as parts:
    parts.extractall("/run/code")
sys.path.insert(0, "/run/code")
import shell_fuzz
shell_fuzz.inside()
"""

REFUSED = ("rm", "curl", "sudo", "vi", "nc", "rmdir", "del")
REAL = (
    "env",
    "xargs",
    "nohup",
    "timeout",
    "nice",
    "setsid",
    "stdbuf",
    "find",
    "cat",
    "bash",
    "sh",
    "dash",
    "true",
    "ls",
    "sort",
    "head",
)
TOKENS = [
    " ", " ", " ", "\n", ";", "; ", "&&", "||", "|", "&", "(", ")", "{ ", "}", "; }", "$(", "`", '"', "'", "\\", "\\\n", "rm", "rm x", "rm", "rm x", "#", " #", "<<E\n", "\nE\n", "<<-E\n",
    "<<'E'\n", "E", "\t", "${x:-", "${x/", "${", "}", "$((", "))", "((", "[[ ", " ]]", "case a in a) ", ";;", " esac", "if ", "then ", " fi", "; do ", "; done", "for i in ", "while ", "eval ", "env ",
    "xargs ", "bash -c ", "sh -c ", "$'", "<(", ">(", ">f ", "2>&1", "<", "a=", "a=(", "a[0]=", "f()", "f() { ", "function f ", "! ", "time ", "-c", "-I{}", "{}", "=~", "$x", '"$@"', "x", "echo ", "command ", "exec ",
    "find . -exec ", " \\;", " +", "trap ", "EXIT", "$", "$[", "]", "[", "*", "?", "~", "!", "=", "{a,", ",", "..", "\\'", '\\"', "\\`", "\\$", "\x01", "é", "\u00a0", "select ", "coproc ", "&>", "|&", "<<<", "local ", "declare ",
    "read ", "<<E", "cat ", "set -- ", "shift;", "return", "exit", "break", "((i=0;i<2;i++))", "esac", "in", "do", "done", "then", "else ", "$#", "${#x}", "$((1", "1", "2", "-", "--", "0<", "{fd}>", "'a'", '"a"', "$(true)", "`true`",
    "1<2", "a|b", ";&", ";;&", "x=rm;", "x=rm ", "export ", "alias ", "$(<f)", "\n\n", "E\n", "\\E", "\"E\"", "@P}", "@Q}", "[@]", "[x]", "%", "##", "//", ":=", ":1", "^^",
]  # fmt: skip


def line(rng: random.Random, rows: list[str]) -> str:
    """Return a line made from rows, changed in a few places, or from nothing but tokens."""
    if rng.random() < 0.15:
        return "".join(rng.choice(TOKENS) for _ in range(rng.randint(2, 14)))
    text = rng.choice(rows)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(text))
        end = min(len(text), at + rng.choice((0, 0, 0, 1, 1, 2, 4)))
        new = rng.choice(TOKENS) if rng.random() < 0.7 else ""
        if rng.random() < 0.12:
            other = rng.choice(rows)
            cut = rng.randint(0, len(other))
            new = other[cut : cut + rng.randint(1, 12)]
        text = text[:at] + new + text[end:]
    return text


class Ground:
    """A folder in which the refused names are programs that leave a mark."""

    def __init__(self, folder: Path) -> None:
        if Path(__file__).parent != CODE or os.geteuid() == 0:
            raise RuntimeError("lines that nobody has read run in their own world only")
        self.folder = folder
        self.mark = folder / "mark"
        self.work = folder / "work"
        self.work.mkdir()
        bin_ = folder / "bin"
        bin_.mkdir()
        for name in REFUSED:
            program = bin_ / name
            program.write_text(f'#!/bin/sh\necho "$0" >> {self.mark}\n')
            program.chmod(0o755)
        for name in REAL:
            if found := shutil.which(name):
                (bin_ / name).symlink_to(found)
        self.env = {"PATH": str(bin_), "HOME": str(self.work), "LC_ALL": "C.UTF-8"}

    def marked(self, shell: str, text: str) -> bool:
        """Run text; tell whether a refused program ran."""
        self.mark.unlink(missing_ok=True)
        shutil.rmtree(self.work)
        self.work.mkdir()
        (self.work / "f").write_text("x\n")
        os.chmod(self.work, 0o777)
        process = subprocess.Popen(
            [shutil.which(shell), "-c", text, "_", "rm", "x"], cwd=self.work, env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return self.mark.exists()


def accepted(text: str, shell: str) -> bool:
    """Return True if the check lets a text pass. `sh` is what the check is told for dash, too."""
    try:
        check(text, shell=shell)
    except ToolError:
        return False
    return True


def hunt(seed: int, count: int, shell: str, rows: list[str], run: str | None = None) -> tuple[list[str], int]:
    """Try count lines; return those that were accepted and ran a refused program, and how many were accepted.

    Raises NoWorld where the world cannot be made.
    """
    order = {"seed": seed, "count": count, "shell": shell, "rows": rows, "run": run or shell}
    place = Path(__file__).parents[1] / "sandbox" / "escapes" / "world.py"
    spec = importlib.util.spec_from_file_location("escapes_world", place)
    assert spec and spec.loader
    world = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(world)
    bwrap = shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")
    if bwrap is None:
        raise world.NoWorld("bubblewrap is not installed")
    uid = world.NOBODY if os.geteuid() == 0 else os.getuid()
    python, binds = world.interpreter(uid)
    parts = io.BytesIO(world.archive())
    with zipfile.ZipFile(parts, "a") as archive:
        archive.write(__file__, "shell_fuzz.py")
        archive.writestr("order.json", json.dumps(order))
    argv = [*world.outer(bwrap, binds), "--", python, "-I", "-S", "-B", "-c", BOOT]
    with open(os.memfd_create("code"), "w+b") as code:
        code.write(parts.getvalue())
        code.seek(0)
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(place.with_name("drop.py")), str(uid), *argv],
            stdin=code, capture_output=True, env={}, cwd="/", start_new_session=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace")[-4000:])
    found, passed = json.loads(done.stdout)
    return found, passed


def inside() -> None:
    """Be the hunt, in the world."""
    order = json.loads((CODE / "order.json").read_text())
    rng, ground = random.Random(order["seed"]), Ground(Path("/tmp"))
    found, passed = [], 0
    if not ground.marked(order["run"], "rm x"):
        raise RuntimeError("a refused program that runs leaves no mark, so nothing would be found")
    for _ in range(order["count"]):
        text = line(rng, order["rows"])
        if "\0" in text or not accepted(text, order["shell"]):
            continue
        passed += 1
        if ground.marked(order["run"], text):
            found.append(text)
    print(json.dumps([found, passed]))


if __name__ == "__main__":
    from test_shell_bypasses import BYPASSES as MORE
    from test_shell_rules import BYPASSES, EVERYDAY

    bad, passed = hunt(
        int(sys.argv[1]), int(sys.argv[2]), (sys.argv[3:] or ["bash"])[0], BYPASSES + MORE + EVERYDAY, *sys.argv[4:]
    )
    print(passed, "accepted")
    for text in bad:
        print(repr(text))
