"""What a worker process runs: it calls sources, as it is asked to, until its program ends or hangs up."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from penstock.errors import SourceError
from penstock.sources.external.external_stream import InProcessStream
from penstock.sources.external.processes.shared_memory import SharedSegments
from penstock.sources.external.processes.socket_channel import Channel, ErrorResponse, RegisterSource, Request, Response

GRACE = 0.5
"""Seconds that a source has to return after its program has hung up."""


def serve(descriptor: int) -> None:
    """Answer requests until the program hangs up.

    Args:
        descriptor: of the socket that they come by.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is for the program, which ends its workers
    channel = Channel(socket.socket(fileno=descriptor))
    requests: SimpleQueue[RegisterSource | Request | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(channel, requests), daemon=True).start()
    worker = _Worker(channel)
    with suppress(OSError):  # the program has ended while it was answered
        while (request := requests.get()) is not None:
            if isinstance(request, RegisterSource):
                worker.payloads[request.source] = request.payload
            else:
                worker.answer(request)


def _listen(channel: Channel, requests: SimpleQueue[RegisterSource | Request | None]) -> None:
    """Receive requests while a source may be running, and end the process when there will be no more."""
    with suppress(EOFError):
        while True:
            requests.put(channel.receive()[0])
    requests.put(None)
    time.sleep(GRACE)
    os._exit(1)


class _Worker:
    """The sources of a worker, and the memory that its answers are in."""

    def __init__(self, channel: Channel) -> None:
        self.payloads: dict[int, bytes] = {}
        self._channel = channel
        self._segments = SharedSegments()
        self._streams: dict[int, InProcessStream] = {}

    def answer(self, ask: Request) -> None:
        """Call a source, and send what it gives."""
        self._segments.recycle(ask.returned)
        try:
            columns = self._stream(ask.source).fetch_rows(ask.turn, None if ask.rows is None else range(*ask.rows))
            segment, places, dropped, descriptor = self._segments.put(columns)
        except Exception as error:  # noqa: BLE001  # whatever the user's code raises is the program's to see
            self._channel.send(_failure(ask.ticket, error))
            return
        self._channel.send(Response(ask.ticket, segment, places, dropped), descriptor)
        if descriptor is not None:
            os.close(descriptor)

    def _stream(self, number: int) -> InProcessStream:
        if number not in self._streams:
            try:
                self._streams[number] = pickle.loads(self.payloads[number])
            except Exception as error:
                raise SourceError(
                    f"a worker process cannot load the source: {type(error).__name__}: {error}",
                    fix="define it in a module that can be imported from there; what it is made of is pickled",
                ) from error
        return self._streams[number]


def _failure(ticket: int, error: Exception) -> ErrorResponse:
    """An error as it can be sent: with the line that raised it, and the cause, if that can be pickled."""
    cause = error.__cause__
    if cause is not None:
        error.args = (f"{error.args[0]}\n  raised at: {_line_of(cause)}, in worker process {os.getpid()}",)
        error.add_note("".join(traceback.format_exception(cause)))
        try:
            pickle.loads(pickle.dumps(cause))
        except Exception:  # noqa: BLE001  # an exception of the user's may be anything
            cause = None
    return ErrorResponse(ticket, error, cause)


def _line_of(error: BaseException) -> str:
    """The line of the user's code that raised an error, or called what did."""
    ours = str(Path(__file__).parents[3])
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((frame for frame in frames if not frame.filename.startswith(ours)), frames[-1])
    return f"{frame.filename}:{frame.lineno} in {frame.name}"
