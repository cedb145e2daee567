"""Damages streams, always in the same ways for the same seed."""

import random

NOISE = [
    b"\x00",
    b"\xff",
    b"\r",
    b"\n",
    b"\n\n",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b"null",
    b"1e999",
    b"-1",
    b"\\ud800",
    b"data:",
    b"NaN",
]


def mutated(stream: bytes, chance: random.Random) -> bytes:
    """The stream with a few bytes lost, doubled or put in."""
    data = bytearray(stream)
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                del data[place : place + chance.randint(1, 20)]
            case 1:
                data[place:place] = chance.choice(NOISE)
            case 2:
                data[place:place] = data[place : place + chance.randint(1, 200)]
            case 3 if place < len(data):
                data[place] = chance.randrange(256)
    return bytes(data)
