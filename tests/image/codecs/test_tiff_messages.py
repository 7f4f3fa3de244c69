"""Handlers of libtiff's messages, which live as long as the process."""

import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent("""
    import ctypes, io, sys, threading
    import numpy as np
    from PIL import Image
    from penstock.image.codecs import pillow
    from penstock.types import RGB

    file = io.BytesIO()
    Image.fromarray(np.zeros((40, 40, 3), np.uint8)).save(file, "TIFF", compression="tiff_lzw")
    damaged = bytearray(file.getvalue())
    damaged[12:30] = b"\\xff" * 18
    data = np.frombuffer(bytes(damaged), np.uint8)
    header = pillow.read_header(data, RGB, True)
    opened, refusals, start = [], [], threading.Barrier(8)

    class CountedCDLL(ctypes.CDLL):
        def __init__(self, name):
            opened.append(name)
            super().__init__(name)

    def decode():
        start.wait()
        try:
            pillow.decode(data, header, RGB)
        except ValueError as error:
            refusals.append(str(error))

    ctypes.CDLL = CountedCDLL
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=decode) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 2, "one thread opens libtiff and the C library"
    assert refusals == ["damaged: decoder error -2 (libtiff: Using code not yet in table)"] * 8, refusals
""")


def test_threads_that_decode_their_first_tiffs_at_once_install_handlers_once():
    subprocess.run([sys.executable, "-X", "faulthandler", "-c", PROGRAM], check=True, timeout=60)
