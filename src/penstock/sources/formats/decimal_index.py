"""Reader for indexes of records: text files of integers, with one line per record."""

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.errors import SourceError
from penstock.native.compiled import Compiled, precompile
from penstock.sources.storage.disk_cache import read_input


def read_pairs(path: str, kind: str, line: str, fix: str) -> NDArray[np.int64]:
    """Return the numbers of an index with two on each line, (lines, 2).

    Args:
        path: The file.
        kind: Format of the records, such as "RecordIO".
        line: The two numbers in words.
        fix: Fix to suggest for a missing or damaged index.

    Raises:
        SourceNotFoundError: The file does not exist.
        SourceError: The file is not such an index.
    """
    try:
        return decimals(read_input(path, "index", fix)).reshape(-1, 2)
    except ValueError:
        expected = f"a line per record: {line}"
        raise SourceError(f"{path!r} is not an index of a {kind} file", expected=expected, fix=fix) from None


def decimals(text: bytes) -> NDArray[np.int64]:
    r"""Parse integers separated by white space.

    Raises:
        ValueError: The text contains anything else, or a number of more than 18 digits.

    >>> decimals(b"16 4\n20 -7\n").tolist()
    [16, 4, 20, -7]
    """
    # An upper bound: a digit and a separator per number. The system does not back pages that are never written.
    numbers = np.empty(len(text) // 2 + 1, np.int64)
    count = np.zeros(1, np.int64)
    _parse(np.frombuffer(text, np.uint8), numbers, count)
    if count[0] < 0:
        raise ValueError(f"not an integer before byte {-count[0]}")
    return numbers[: count[0]]


@precompile("u1[1] i8[1] i8[1]")
@Compiled
def _parse(text: Array, numbers: Array, count: Array) -> None:
    """Write the number of parsed integers to `count`; a negative offset if the text is invalid."""
    parsed, at, size = 0, 0, text.shape[0]
    while at < size:
        byte = text[at]
        if byte == 32 or 9 <= byte <= 13:
            at += 1
            continue
        negative = byte == 45
        if negative:
            at += 1
        value, first = 0, at
        while at < size and 48 <= text[at] <= 57:
            value = value * 10 + (int(text[at]) - 48)
            at += 1
        ends = at == size or text[at] == 32 or 9 <= text[at] <= 13
        # 18 digits always fit int64; the check also rejects a lone minus sign.
        if not ends or not 0 < at - first <= 18:
            count[0] = -at - 1
            return
        numbers[parsed] = -value if negative else value
        parsed += 1
    count[0] = parsed
