"""What a started program is known by."""

import asyncio
import json
import os
import socket

from toolbox_mcp.sandbox.linux.zygote_client import Held


async def test_a_program_stands_when_both_its_keeper_and_its_folder_are_known(tmp_path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    held = Held(ours, tuple(os.open(os.devnull, os.O_RDWR) for _ in range(3)))
    folder = os.open(tmp_path, os.O_RDONLY)
    with theirs:
        # Pid 1 of the program's namespace is ready before the keeper has come to speak.
        socket.send_fds(theirs, [json.dumps({"ready": True}).encode()], [folder])
        os.close(folder)
        assert held.lives()
        assert held.scratch is not None
        assert not held.ready.done()
        theirs.send(json.dumps({"keeper": os.getpid(), "helpers": []}).encode())
        async with asyncio.timeout(10):
            await held.ready
        assert held.pid == os.getpid()
    await held.discard()
