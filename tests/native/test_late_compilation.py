"""Loops that are compiled only after some work, and the code that they replace until then."""

import io

import numpy as np
import pytest
from PIL import Image

from penstock import Pipeline, fn
from penstock.native.compiled import Compiled, precompile

PAYS_OFF = Compiled.pays_off  # the fixture `loops_from_the_first_call` replaces it


@precompile("i8[1]")
@Compiled
def doubled(values):
    for i in range(values.shape[0]):
        values[i] *= 2


@pytest.fixture
def new_loop(tmp_path, monkeypatch):
    """Return a function that makes the loop as in a new process."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return lambda: precompile("i8[1]")(Compiled(doubled.__wrapped__))


def test_a_loop_pays_off_after_some_work(new_loop):
    loop = new_loop()
    assert [PAYS_OFF(loop, 4, 10) for _ in range(4)] == [False, False, True, True]
    assert PAYS_OFF(new_loop(), 11, 10), "one large call"


def test_a_cached_loop_pays_off_at_once(new_loop):
    values = np.arange(3)
    new_loop()(values)
    loop = new_loop()
    assert PAYS_OFF(loop, 1, 10)
    loop(values)
    assert values.tolist() == [0, 4, 8]


def test_a_loop_that_a_call_has_compiled_pays_off(new_loop):
    loop = new_loop()
    assert not PAYS_OFF(loop, 1, 10)
    loop(np.arange(3))
    assert PAYS_OFF(loop, 1, 10)


def test_batches_are_the_same_before_loops_pay_off(tmp_path, monkeypatch):
    for number in range(80):
        pixels = np.random.default_rng(number).integers(0, 256, (20 + number % 7, 30, 3), np.uint8)
        file, exif = io.BytesIO(), Image.Exif()
        exif[0x0112] = 6 if number % 9 == 0 else 1
        Image.fromarray(pixels).save(file, "JPEG", exif=exif)
        (tmp_path / f"{number:02}.jpg").write_bytes(file.getvalue())
    asked, batches = set(), []

    def pays_off(loop, *_):
        asked.add(loop.__name__)
        return bool(batches)

    monkeypatch.setattr(Compiled, "pays_off", pays_off)
    for _ in range(2):
        with Pipeline(80, num_threads=1, seed=3) as pipeline:
            files, labels = fn.readers.file(files=sorted(map(str, tmp_path.iterdir())), random_shuffle=True)
            images = fn.resize(fn.decoders.image_random_crop(files), size=(8, 8))
            noise = fn.noise.gaussian(images, stddev=fn.random.uniform(range=(0.0, 9.0)))
            pipeline.set_outputs(noise, labels)
        batches.append([output.as_array().tolist() for output in pipeline.run()])
        pipeline.close()
    assert batches[0] == batches[1]
    assert asked == {"read_files", "scan_jpegs", "_draw", "draw_windows"}
