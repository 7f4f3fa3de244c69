"""Limit on the bytes of one sample, checked before memory is allocated."""

import functools
import os
import re

from penstock.errors import ResourceError, UsageError, short_repr

_NAME = "PENSTOCK_MAX_SAMPLE_SIZE"

# Twice the uncompressed bytes of the largest image that is decoded, with four channels of 16 bits.
_DEFAULT = 1 << 31

_UNITS = ("", "K", "M", "G", "T")


def bytes_of(name: str, text: str) -> int:
    """Parse a number of bytes, such as 50GB or 8 GiB.

    Args:
        name: Name of the environment variable or argument, for messages.
        text: Its value.

    Raises:
        UsageError: it is not one.

    >>> bytes_of("SIZE", "1.5 GB"), bytes_of("SIZE", "1.5 KiB")
    (1500000000, 1536)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", text, re.IGNORECASE)
    if match is None:
        raise UsageError(f"{name} is not a number of bytes", given=short_repr(text), expected="50GB, 500MB or 0")
    power = _UNITS.index(match[2].upper())
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def bytes_text(size: float) -> str:
    """Return a number of bytes as text.

    >>> bytes_text(1_500_000_000), bytes_text(2_000)
    ('1.5 GB', '2.0 kB')
    """
    unit = next((power for power in (4, 3, 2) if size >= 1000**power), 1)
    return f"{size / 1000**unit:.1f} {('kB', 'MB', 'GB', 'TB')[unit - 1]}"


def max_sample_size() -> int:
    """Return the limit on the bytes of one sample: ``PENSTOCK_MAX_SAMPLE_SIZE``, or 2 GiB.

    Raises:
        UsageError: it is not a number of bytes.
    """
    text = os.environ.get(_NAME)
    return _limit(text) if text else _DEFAULT


@functools.lru_cache(maxsize=8)
def _limit(text: str) -> int:
    return bytes_of(_NAME, text)


def check_sample_size(size: int, where: str | bytes) -> None:
    """Refuse to read a sample of too many bytes.

    Args:
        size: Bytes of the sample according to the file system, the index or the store.
        where: Path of the file, or the location in it.

    Raises:
        ResourceError: The sample is larger than `max_sample_size`.
    """
    limit = max_sample_size()
    if size > limit:
        raise ResourceError(
            f"{os.fsdecode(where)} is too large to be read for one sample",
            given=f"{size} bytes",
            expected=f"at most {limit}",
            fix=f"remove it from the data set, or raise the limit in the environment: {_NAME}={-(-size // 10**9)}GB",
        )


def check_announced_size(size: int) -> None:
    """Refuse to decode a sample whose header announces too many bytes of values.

    Raises:
        ValueError: there are more than `max_sample_size`. The header may be damaged, so the sample is bad.
    """
    limit = max_sample_size()
    if size > limit:
        raise ValueError(f"its header announces {size} bytes, more than the {limit} that {_NAME} allows")
