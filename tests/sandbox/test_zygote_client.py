"""What a started program is known by."""

import asyncio
import json
import os
import socket

from toolbox_mcp.sandbox.linux.zygote_client import SupervisedProcess


async def test_a_program_stands_when_both_its_supervisor_and_its_folder_are_known(tmp_path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = SupervisedProcess(ours, tuple(os.open(os.devnull, os.O_RDWR) for _ in range(3)))
    folder = os.open(tmp_path, os.O_RDONLY)
    with theirs:
        # Pid 1 of the program's namespace is ready before the supervisor has come to speak.
        socket.send_fds(theirs, [json.dumps({"ready": True}).encode()], [folder])
        os.close(folder)
        assert process.is_alive()
        assert process.scratch is not None
        assert not process.ready.done()
        theirs.send(json.dumps({"supervisor": os.getpid(), "helpers": []}).encode())
        async with asyncio.timeout(10):
            await process.ready
        assert process.pid == os.getpid()
    await process.discard()
