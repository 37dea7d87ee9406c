"""The outline of a tree cold and warm beside universal-ctags: python bench/outline.py [FOLDER].

Without a folder, of two trees of copies of the standard library: 80 MB, and 5,000 files.
"""

import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from itertools import count
from math import inf
from pathlib import Path

from client import LineClient

MEGABYTES = 80
FILES = 5000


def copied(folder: Path, megabytes: float, files: float) -> None:
    """Fill a folder with copies of the standard library's modules, up to a size or a number of them."""
    sources = [file for file in Path(sysconfig.get_path("stdlib")).rglob("*.py") if "site-packages" not in file.parts]
    size = 0
    for number in count():
        file = sources[number % len(sources)]
        data = file.read_bytes()
        if number == files or size + len(data) > megabytes * 1e6:
            return
        below = folder / f"copy{number // len(sources)}" / file.parent.name
        below.mkdir(parents=True, exist_ok=True)
        (below / f"{number:05}_{file.name}").write_bytes(data)
        size += len(data)


def measured(folder: Path) -> None:
    """Print how long maps and searches of a tree take, and ctags."""
    files = [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    print(f"{len(files)} files, {megabytes:.0f} MB")
    command = [sys.executable, "-m", "toolbox_mcp", "serve", "--root", str(folder), "--set", "records=false"]
    with LineClient(command) as client:
        client.initialize()
        for label, arguments in (
            ("map, cold", {}),
            ("map, warm", {}),
            ("map, warm", {}),
            ("find, warm", {"query": "OrderedDict"}),
        ):
            start = time.perf_counter()
            result = client.call("code_outline", arguments)
            taken = time.perf_counter() - start
            last = result["content"][0]["text"].rpartition("\n")[2][:80]
            print(f"{label}: {taken:.2f} s ({megabytes / taken:.0f} MB/s), {last}")
    if shutil.which("ctags"):
        start = time.perf_counter()
        subprocess.run(["ctags", "-R", "-f", "/dev/null", str(folder)], check=True, capture_output=True)
        taken = time.perf_counter() - start
        print(f"ctags -R: {taken:.2f} s ({megabytes / taken:.0f} MB/s)")


def main() -> None:
    if len(sys.argv) > 1:
        measured(Path(sys.argv[1]).resolve())
        return
    for megabytes, files in ((MEGABYTES, inf), (inf, FILES)):
        with tempfile.TemporaryDirectory() as name:
            copied(Path(name), megabytes, files)
            measured(Path(name).resolve())


if __name__ == "__main__":
    main()
