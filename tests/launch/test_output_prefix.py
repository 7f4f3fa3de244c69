"""Tests of forwarded output: complete lines, progress bars, endless lines."""

import io
import os
import threading

from penstock.launch.output_prefix import Printer, forward_output


class Bytes(io.BytesIO):
    """Stream that counts its writes and records the largest."""

    largest = 0

    def write(self, text):
        self.largest = max(self.largest, len(text))
        return super().write(text)


def printed(*parts, number=0, printer=None):
    """Return the printed output of the parts that a process writes, waiting for each."""
    target = io.TextIOWrapper(Bytes())
    printer = printer or Printer(target)
    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as source:
        thread = threading.Thread(target=forward_output, args=(source, printer, number))
        thread.start()
        for part in parts:
            os.write(write, part)
        os.close(write)
        thread.join()
    return target.buffer.getvalue()


def test_every_line_has_process_number():
    assert printed(b"one\ntw", b"o\n\nthree", number=3) == b"[3] one\n[3] two\n[3] \n[3] three"


def test_progress_shows_before_the_newline():
    assert printed(b"10%\r20%\r", b"30%\rdone\n") == b"[0] 10%\r[0] 20%\r[0] 30%\r[0] done\n"
    assert printed(b"windows\r", b"\nlines\r\n") == b"[0] windows\r\n[0] lines\r\n"


def test_unfinished_line_is_flushed_after_delay():
    target = io.TextIOWrapper(Bytes())
    shown = threading.Event()

    class Watched(Printer):
        def write(self, number, pieces):
            super().write(number, pieces)
            shown.set()

    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as source:
        thread = threading.Thread(target=forward_output, args=(source, Watched(target), 0))
        thread.start()
        os.write(write, b"working ...")
        assert shown.wait(60)
        os.write(write, b" done\n")
        os.close(write)
        thread.join()
    assert target.buffer.getvalue() == b"[0] working ... done\n"


def test_lines_of_several_processes_do_not_mix():
    target = io.TextIOWrapper(Bytes())
    printer = Printer(target)
    printer.write(0, [b"half"])
    printer.write(1, [b"whole\n"])
    printer.write(0, [b" a line\n"])
    printer.write(1, [b"open"])
    printer.say("the end")
    assert target.buffer.getvalue() == b"[0] half\n[1] whole\n[0]  a line\n[1] open\nthe end\n"


def test_endless_line_is_forwarded_in_pieces():
    target = io.TextIOWrapper(Bytes())
    size = 3_000_000
    printed(b"x" * size, printer=Printer(target))
    assert target.buffer.getvalue() == b"[0] " + b"x" * size
    assert target.buffer.largest <= 2 << 16


def test_text_stream_receives_text():
    target = io.StringIO()
    printed("größe\n".encode(), printer=Printer(target))
    assert target.getvalue() == "[0] größe\n"


def test_write_error_is_recorded_except_for_closed_pipe():
    read, pipe = os.pipe()
    os.close(read)
    for descriptor, failure in ((os.open("/dev/full", os.O_WRONLY), "No space left on device"), (pipe, None)):
        with os.fdopen(descriptor, "wb", buffering=0) as below:
            printer = Printer(io.TextIOWrapper(below, write_through=True))
            printed(b"a line\n", printer=printer)
            assert printer.failure == failure
    Printer(None).say("to where there is no stream")
