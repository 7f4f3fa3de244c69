"""Main function of a worker process: it calls sources on request until the parent process ends or hangs up."""

import os
import pickle
import signal
import socket
import threading
import time
import traceback
from contextlib import suppress
from queue import SimpleQueue

from penstock.core.call_site import PACKAGE
from penstock.errors import SourceError
from penstock.sources.external.external_stream import InProcessStream
from penstock.sources.external.processes.shared_memory import SharedSegments
from penstock.sources.external.processes.socket_channel import Channel, ErrorResponse, RegisterSource, Request, Response

# Seconds that a source has to return after the parent has hung up.
GRACE = 0.5


def serve(descriptor: int) -> None:
    """Answer requests until the parent hangs up.

    Args:
        descriptor: File descriptor of the socket to the parent.
    """
    # Ctrl-C reaches the whole process group. The parent handles it and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(socket.socket(fileno=descriptor))
    requests: SimpleQueue[RegisterSource | Request | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(channel, requests), daemon=True).start()
    worker = _Worker(channel)
    with suppress(OSError):  # the parent has ended before the response was sent
        while (request := requests.get()) is not None:
            if isinstance(request, RegisterSource):
                worker.payloads[request.source] = request.payload
            else:
                worker.answer(request)


def _listen(channel: Channel, requests: SimpleQueue[RegisterSource | Request | None]) -> None:
    """Receive requests while a source runs, and end the process when the connection is closed."""
    with suppress(EOFError):
        while True:
            requests.put(channel.receive()[0])
    requests.put(None)
    # The main thread ends after the current request. A source that hangs must not keep the process alive, and only
    # `_exit` ends it without waiting.
    time.sleep(GRACE)
    os._exit(1)


class _Worker:
    """Sources of a worker, and the shared memory of its responses."""

    def __init__(self, channel: Channel) -> None:
        self.payloads: dict[int, bytes] = {}
        self._channel = channel
        self._segments = SharedSegments()
        self._streams: dict[int, InProcessStream] = {}

    def answer(self, request: Request) -> None:
        """Call a source and send its batch."""
        self._segments.recycle(request.returned)
        try:
            rows = None if request.rows is None else range(*request.rows)
            columns = self._stream(request.source).fetch_rows(request.batch, rows)
            segment, places, dropped, descriptor = self._segments.put(columns)
        except Exception as error:  # noqa: BLE001  # the parent raises it
            self._channel.send(_failure(request.ticket, error))
            return
        self._channel.send(Response(request.ticket, segment, places, dropped), descriptor)
        if descriptor is not None:
            os.close(descriptor)  # the parent has received a duplicate, and the mapping keeps the memory alive

    def _stream(self, number: int) -> InProcessStream:
        if number not in self._streams:
            try:
                # Sources are loaded on first use, so that an error is reported for the batch that needs the source.
                self._streams[number] = pickle.loads(self.payloads[number])
            except Exception as error:
                raise SourceError(
                    f"a worker process cannot load the source: {type(error).__name__}: {error}",
                    fix="define it in a module that worker processes can import; its attributes are pickled",
                ) from error
        return self._streams[number]


def _failure(ticket: int, error: Exception) -> ErrorResponse:
    """Return a response with an error, the line that raised it, and the cause if it can be pickled."""
    cause = error.__cause__
    if cause is not None:
        error.args = (f"{error.args[0]}\n  raised at: {_line_of(cause)}, in worker process {os.getpid()}",)
        # Tracebacks cannot be pickled, so the formatted traceback travels as a note.
        error.add_note("".join(traceback.format_exception(cause)))
        try:
            pickle.loads(pickle.dumps(cause))
        except Exception:  # noqa: BLE001  # pickling a user's exception may raise anything
            cause = None
    return ErrorResponse(ticket, error, cause)


def _line_of(error: BaseException) -> str:
    """Return the innermost line outside of this package in an error's traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((frame for frame in frames if not frame.filename.startswith(PACKAGE)), frames[-1])
    return f"{frame.filename}:{frame.lineno} in {frame.name}"
