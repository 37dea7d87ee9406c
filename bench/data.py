"""Queries of 5 MB documents beside jq, CSV of a million rows, and differences beside diff -u: python bench/data.py."""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import yaml
from client import LineClient

MEGABYTES = 4.8
ROUNDS = 5


def written(folder: Path) -> None:
    """Write the documents: the same records as JSON, YAML and TOML, and two texts."""
    rows = [{"id": n, "name": f"user {n}", "tags": ["a", "b"], "ratio": n / 7, "none": None} for n in range(100_000)]
    size = len(json.dumps(rows[:1000])) / 1000
    rows = rows[: int(MEGABYTES * 1e6 / size)]
    (folder / "rows.json").write_text(json.dumps({"users": rows}))
    dumped = yaml.dump({"users": rows[: len(rows) // 2]}, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))
    (folder / "rows.yaml").write_text(dumped)
    tables = (f'[[users]]\nid = {row["id"]}\nname = "{row["name"]}"\ntags = ["a", "b"]\n' for row in rows)
    (folder / "rows.toml").write_text("".join(tables))
    (folder / "rows.csv").write_text("id,name\n" + "".join(f"{n},{n % 97}\n" for n in range(1_000_000)))


def milliseconds(work: Callable[[], object]) -> float:
    """Return the median of some rounds after a warm-up."""
    work()
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        written(folder)
        command = [sys.executable, "-m", "toolbox_mcp", "serve", "--root", str(folder), "--set", "records=false"]
        with LineClient(command) as client:
            client.request(
                "initialize",
                {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
            )
            client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

            def call(tool: str, **arguments: object) -> Callable[[], object]:
                def work() -> None:
                    result = client.request("tools/call", {"name": tool, "arguments": arguments})
                    assert not result.get("isError"), result

                return work

            old = "".join(f"line {n}\n" for n in range(20_000))
            new = old.replace("line 777\n", "other\n").replace("line 19000\n", "")
            for tool, file, query in (
                ("json_query", "rows.json", "users[900].name"),
                ("json_query", "rows.json", None),
                ("yaml_query", "rows.yaml", "users[900].name"),
                ("toml_query", "rows.toml", "users[900].name"),
            ):
                size = (folder / file).stat().st_size / 1e6
                taken = milliseconds(call(tool, path=file, query=query))
                print(f"{tool} {query or 'whole'}, {size:.1f} MB: {taken:.0f} ms")
            print(f"csv_read at row 999,900: {milliseconds(call('csv_read', path='rows.csv', offset=999_900)):.0f} ms")
            print(f"diff of 20,000 lines: {milliseconds(call('diff', a=old, b=new, style='unified')):.0f} ms")
        (folder / "old").write_text(old)
        (folder / "new").write_text(new)
        for program in (
            ["jq", ".users[900].name", "rows.json"],
            ["jq", ".", "rows.json"],
            ["diff", "-u", "old", "new"],
        ):
            if shutil.which(program[0]):
                taken = milliseconds(partial(subprocess.run, program, cwd=folder, capture_output=True, check=False))
                print(f"{' '.join(program)}: {taken:.0f} ms")


if __name__ == "__main__":
    main()
