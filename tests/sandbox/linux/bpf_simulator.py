"""Runs a seccomp filter as the kernel would, on a made-up system call."""

import struct

WORD = 0xFFFFFFFF


def run(program: bytes, arch: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """Return the filter's action. Raises where the kernel would refuse the filter."""
    padded = [a & 0xFFFFFFFFFFFFFFFF for a in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("<IIQ6Q", number & WORD, arch, 0x7F0000000000, *padded)
    lines = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    assert 0 < len(lines) <= 4096
    accumulator, at, steps = 0, 0, 0
    while True:
        code, yes, no, value = lines[at]
        at += 1
        steps += 1
        match code:
            case 0x20:
                assert value % 4 == 0
                assert value < 64
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x54:
                accumulator &= value
            case 0x05:
                at += value
            case 0x15:
                at += yes if accumulator == value else no
            case 0x35:
                at += yes if accumulator >= value else no
            case 0x45:
                at += yes if accumulator & value else no
            case 0x06:
                return value
            case _:
                raise AssertionError(f"no such instruction: {code:#x}")
        assert at < len(lines), "jump beyond the end"
        assert steps <= len(lines), "a filter only jumps forward"
