"""Tests that states saved by an earlier version resume the same stream.

`golden/states.json` holds, for each definition below, a state and digests of the batches that followed it when it was
saved. It is never written again: a definition whose fingerprint has to change is listed in REFUSED instead.
"""

import hashlib
import io
import json
import os
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image

from penstock import data_iterator, fn, types
from penstock.errors import StateError

STORED = Path(__file__).parent / "golden" / "states.json"
IMAGES = (np.arange(60 * 12 * 10 * 3) * 7 % 251).astype(np.uint8).reshape(60, 12, 10, 3)
LABELS = np.arange(60, dtype=np.int32) % 7
REFUSED: set[str] = set()


def arrays(root):
    data = {"x": IMAGES, "y": LABELS}
    data = fn.readers.arrays(data, layout={"x": "HWC", "y": ""}, random_shuffle=True, name="r")
    images = fn.crop_mirror_normalize(data["x"], crop=(8, 8), mirror=fn.random.coin_flip(), mean=120.0, std=60.0)
    return images, fn.one_hot(data["y"], num_classes=7)


def photographs(root):
    encoded, labels = fn.readers.file(file_root=str(root / "classes"), random_shuffle=True, name="r")
    images = fn.decoders.image_random_crop(encoded, device="mixed")
    images = fn.resize(images, size=(16, 16))
    return fn.color_twist(images, hue=fn.random.uniform(range=(-20.0, 20.0))), labels


def filters(root):
    images = fn.readers.arrays(IMAGES, layout="HWC", random_shuffle=True, name="r")
    angle = fn.random.uniform(range=(-10.0, 10.0))
    images = fn.gaussian_blur(fn.rotate(images, angle=angle, keep_size=True), window_size=3)
    return fn.erase(images, anchor=(2, 2), shape=(3, 3), axis_names="HW"), fn.reductions.mean(images)


def branches(root):
    data = {"x": IMAGES, "y": LABELS}
    data = fn.readers.arrays(data, layout={"x": "HWC", "y": ""}, random_shuffle=True, name="r")
    images = data["x"]
    if fn.random.coin_flip(dtype=types.BOOL):
        images = fn.flip(images)
    return images, data["y"] * 2 + 1


def functions(root):
    images = fn.readers.arrays(IMAGES, layout="HWC", random_shuffle=True, name="r")
    return fn.python_function(images, function=inverted), fn.noise.gaussian(images, stddev=3.0)


def inverted(image):
    return 255 - image


def two_readers(root):
    images = fn.readers.arrays(IMAGES, layout="HWC", random_shuffle=True, name="r")
    other = fn.readers.arrays(LABELS[:33], random_shuffle=True, name="s")
    return images, other


def mixture(root):
    mixed = fn.readers.mix(
        fn.readers.arrays(IMAGES, layout="HWC"),
        fn.readers.arrays(IMAGES[:20] // 2, layout="HWC"),
        weights=[3, 1],
        random_shuffle=True,
        name="r",
    )
    return fn.cast(mixed, dtype=types.FLOAT) / 255.0


DEFINITIONS = [arrays, photographs, filters, branches, functions, two_readers, mixture]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    for index, image in enumerate(IMAGES[:24]):
        folder = root / "classes" / f"class{index % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        file = io.BytesIO()
        Image.fromarray(np.repeat(np.repeat(image, 4, 0), 4, 1)).save(file, "PNG")
        (folder / f"{index:02}.png").write_bytes(file.getvalue())
        os.utime(folder / f"{index:02}.png", (0, 0))
    return root


def iterator_of(definition, root):
    names = ["x", "y"][: 1 if definition is mixture else 2]
    bound = data_iterator(definition, names, reader_name="r")
    conditionals = {"enable_conditionals": True} if definition is branches else {}
    return bound(root=root, batch_size=4, seed=42, num_threads=2, **conditionals)


def digests(iterator, count):
    batches = [jax.tree.map(np.asarray, next(iterator)) for _ in range(count)]
    contents = ([np.asarray(value).tobytes() for _, value in sorted(batch.items())] for batch in batches)
    return [hashlib.sha256(b"".join(content)).hexdigest()[:16] for content in contents]


@pytest.mark.skipif("PENSTOCK_STORE_STATES" not in os.environ, reason="states are stored once")
def test_store_the_states(root):
    stored = {}
    for definition in DEFINITIONS:
        iterator = iterator_of(definition, root)
        digests(iterator, 2)
        stored[definition.__name__] = {"state": iterator.get_state(), "digests": digests(iterator, 2)}
        iterator.close()
    STORED.parent.mkdir(exist_ok=True)
    STORED.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.__name__)
def test_stored_state_resumes_stream(definition, root):
    stored = json.loads(STORED.read_text())[definition.__name__]
    iterator = iterator_of(definition, root)
    if definition.__name__ in REFUSED:
        with pytest.raises(StateError, match="version"):
            iterator.set_state(stored["state"])
        return
    iterator.set_state(stored["state"])
    assert digests(iterator, 2) == stored["digests"]
