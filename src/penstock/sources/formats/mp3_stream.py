"""MP3 files that do not state their length. libsndfile estimates it, and reads no further."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.core import Array, optional_import
from penstock.sources.storage.sample_limit import check_announced_size

# Sizes in bytes of the header of ID3v2, and of what precedes and includes the header of Xing in the first frame.
_ID3_BYTES, _XING_BYTES = 10, 44

# Samples per read: those of one frame. After an error, the samples of a read are lost.
_FRAME = 1152


def states_length(read: Callable[[int, int], Array]) -> bool:
    """Return True if the first frame of an MP3 file holds the number of frames: a Xing header, also called Info.

    Args:
        read: Function that returns a byte range of the file.
    """
    # On Windows, a socket is no file that libsndfile could read, so its estimate has to do.
    if os.name == "nt":
        return True
    head, start = read(0, _ID3_BYTES).tobytes(), 0
    if head.startswith(b"ID3"):
        # Four bytes of 7 bits each.
        start = _ID3_BYTES + sum(byte << 7 * (3 - place) for place, byte in enumerate(head[6:]))
    frame = read(start, start + _XING_BYTES).tobytes()
    return b"Xing" in frame or b"Info" in frame


def read_stream(data: Array, dtype: str) -> Array:
    """Decode an MP3 file up to its end.

    Args:
        data: Bytes of the file, uint8.
        dtype: Dtype of the signal.

    Returns:
        The signal, (samples, channels).

    Raises:
        soundfile.SoundFileError: The file is damaged.
        ValueError: The signal is too large.
    """
    soundfile = optional_import.import_extra("soundfile", "audio", "decoding sound")
    # libsndfile reads up to the end only where it cannot seek. Of the kinds of files that it cannot seek in, a socket
    # ends although a process that was forked meanwhile has inherited the other end.
    receiver, sender = socket.socketpair()
    thread = threading.Thread(target=_send, args=(sender, data), name="penstock-mp3")
    thread.start()
    blocks: list[Array] = []
    try:
        with soundfile.SoundFile(receiver.fileno(), closefd=False) as file:
            size = 0
            try:
                while len(block := file.read(_FRAME, dtype=dtype, always_2d=True)):
                    blocks.append(block)
                    size += block.nbytes
                    check_announced_size(size)
            except soundfile.SoundFileError:
                # An incomplete last frame and zeros that follow the last frame are usual, and are left out.
                if not blocks or _has_content(receiver):
                    raise
    finally:
        # macOS refuses to shut down a socket whose other end is closed.
        with contextlib.suppress(OSError):
            receiver.shutdown(socket.SHUT_RDWR)
        thread.join()
        receiver.close()
    return np.concatenate(blocks) if blocks else np.zeros((0, 1), dtype)


def _send(sender: socket.socket, data: Array) -> None:
    """Send bytes, and mark their end."""
    with sender:
        try:
            sender.sendall(data.data)
            sender.shutdown(socket.SHUT_WR)
        except OSError:  # the receiver has stopped
            return


def _has_content(receiver: Any) -> bool:
    """Return True if bytes other than zeros are left."""
    while part := receiver.recv(1 << 16):
        if part.strip(b"\0"):
            return True
    return False
