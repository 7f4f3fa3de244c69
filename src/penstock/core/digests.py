"""Digests that identify data."""

import hashlib

import numpy as np

from penstock.core.columns import Array


def short_digest(*parts: str | bytes | Array) -> str:
    """Hash texts and arrays, one after the other, to 16 hexadecimal digits.

    >>> short_digest("ab", np.arange(2)) == short_digest(b"ab", np.arange(2, dtype=">i8"))
    True
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            # Saved states hold digests, and may be restored on a machine of another byte order.
            digest.update(np.asarray(part, part.dtype.newbyteorder("<")).tobytes())
        else:
            digest.update(part.encode() if isinstance(part, str) else part)
    return digest.hexdigest()[:16]
