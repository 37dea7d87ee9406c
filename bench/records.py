"""Time of a record's two writes, as a call waits for them: python bench/records.py [CALLS]."""

import asyncio
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from toolbox_mcp.server.records import Finished, Records, Started, Status, new_call_id


async def main(calls: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        records = Records.open(Path(folder) / "records.sqlite3")
        starts, ends = [], []
        for n in range(calls):
            arguments = {"path": f"src/file{n}.py", "content": "x = 1\n" * 100}
            call = Started(
                new_call_id(),
                "e",
                None,
                None,
                "bench 1",
                "s",
                None,
                "write_file",
                arguments,
                False,
                None,
                datetime.now(UTC),
            )
            begun = time.perf_counter()
            await records.start(call)
            written = time.perf_counter()
            await asyncio.wrap_future(
                records.finish(call.call_id, Finished(Status.SUCCESS, None, "def run(): pass\n" * 200, None, 1.0))
            )
            starts.append(written - begun)
            ends.append(time.perf_counter() - written)
        records.close()
    for name, taken in (("before the call", starts), ("after the call", ends)):
        cuts = statistics.quantiles(taken, n=100)
        print(f"{name:16} median {cuts[49] * 1000:.3f} ms, p99 {cuts[98] * 1000:.3f} ms")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))
