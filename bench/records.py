"""Time of a record's two writes: what a call waits for, and when its end is in the file: python bench/records.py [CALLS]."""

import asyncio
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from toolbox_mcp.server.records.recorder import Finished, Records, Started, Status, new_call_id


async def main(calls: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        records = Records.open(Path(folder) / "records.sqlite3")
        for what, gated in (("a call that may change something", True), ("any other call", False)):
            starts, ends = [], []
            for n in range(calls):
                arguments = {"path": f"src/file{n}.py", "content": "x = 1\n" * 100}
                who = ("e", None, None, "bench 1", "s", None)
                begun = time.perf_counter()
                call = Started(
                    new_call_id(), *who, "write_file", arguments, False, None, datetime.now(UTC), gated=gated
                )
                await records.start(call)
                written = time.perf_counter()
                ended = records.finish(
                    call.call_id, Finished(Status.SUCCESS, None, "def run(): pass\n" * 200, None, 1.0)
                )
                starts.append(written - begun)
                if n % 16 == 0:
                    await asyncio.wrap_future(ended)
                    ends.append(time.perf_counter() - written)
                else:
                    await asyncio.sleep(0)
            for name, taken in (("before it runs", starts), ("until its end is in the file", ends)):
                cuts = statistics.quantiles(taken, n=100)
                print(f"{what}, {name}: median {cuts[49] * 1000:.3f} ms, p99 {cuts[98] * 1000:.3f} ms")
        records.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))
