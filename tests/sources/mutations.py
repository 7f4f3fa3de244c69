"""Files with bytes changed at random, for tests of what reads them."""

import os

MUTATIONS = int(os.environ.get("PENSTOCK_MUTATIONS", "1000"))
"""How many mutations of each kind of file; a hundred times as many are made by hand now and then."""


def mutated(data, rng):
    """Bytes flipped, overwritten with telling values, taken out, put in, doubled, or cut off."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(6)
        if how == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[at : at + 8] = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * rng.choice((1, 2, 4, 8))
        elif how == 2:
            del data[at : at + rng.randrange(1, 9)]
        elif how == 3:
            data[at:at] = rng.randbytes(rng.randrange(1, 12))
        elif how == 4:
            data[at:at] = data[at : at + rng.randrange(1, 40)]
        elif rng.randrange(4) == 0:
            del data[at:]
    return bytes(data)
