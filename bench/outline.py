"""The outline of a tree cold and warm beside universal-ctags: python bench/outline.py [FOLDER [MEGABYTES]].

Without a folder, the standard library is copied until there are 80 MB of it.
"""

import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from client import LineClient


def copied(folder: Path, megabytes: float) -> None:
    """Fill a folder with copies of the standard library's modules."""
    sources = [file for file in Path(sysconfig.get_path("stdlib")).rglob("*.py") if "site-packages" not in file.parts]
    size, round_ = 0, 0
    while size < megabytes * 1e6:
        below = folder / f"copy{round_}"
        below.mkdir()
        for number, file in enumerate(sources):
            data = file.read_bytes()
            (below / f"{number:05}_{file.name}").write_bytes(data)
            size += len(data)
            if size >= megabytes * 1e6:
                break
        round_ += 1


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else name).resolve()
        if len(sys.argv) < 2 or len(sys.argv) > 2:
            copied(Path(name), float(sys.argv[2]) if len(sys.argv) > 2 else 80)
            folder = Path(name).resolve()
        files = [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
        megabytes = sum(file.stat().st_size for file in files) / 1e6
        print(f"{len(files)} files, {megabytes:.0f} MB")
        command = [sys.executable, "-m", "toolbox_mcp", "serve", "--root", str(folder), "--set", "records=false"]
        with LineClient(command) as client:
            client.request(
                "initialize",
                {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
            )
            client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            for label, arguments in (
                ("map, cold", {}),
                ("map, warm", {}),
                ("map, warm", {}),
                ("find, warm", {"query": "OrderedDict"}),
            ):
                start = time.perf_counter()
                result = client.request("tools/call", {"name": "code_outline", "arguments": arguments})
                taken = time.perf_counter() - start
                last = result["content"][0]["text"].rpartition("\n")[2][:80]
                print(f"{label}: {taken:.2f} s ({megabytes / taken:.0f} MB/s), {last}")
        if shutil.which("ctags"):
            start = time.perf_counter()
            subprocess.run(["ctags", "-R", "-f", "/dev/null", str(folder)], check=True, capture_output=True)
            taken = time.perf_counter() - start
            print(f"ctags -R: {taken:.2f} s ({megabytes / taken:.0f} MB/s)")


if __name__ == "__main__":
    main()
