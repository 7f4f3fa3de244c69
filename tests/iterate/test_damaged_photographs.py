"""Tests of training with damaged photographs, from ImageNet if available, otherwise generated."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from penstock import data_iterator, fn, train, types
from penstock.errors import SampleError

SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "imagenet400"
COUNT, EPOCHS = 48, 2
DAMAGE = {11: lambda data: data[: len(data) // 3], 24: lambda data: b"no photograph" * 100, 40: lambda data: b""}


@pytest.fixture(scope="module")
def files(tmp_path_factory, jpeg):
    """Return the paths of the photographs."""
    folder, rng = tmp_path_factory.mktemp("photographs"), np.random.default_rng(1)
    sample = sorted(SAMPLE.glob("*.JPEG"))[: 8 * COUNT : 8]
    for number in range(COUNT):
        pixels = np.kron(rng.integers(0, 256, (5 + number % 3, 6, 3), np.uint8), np.ones((12, 12, 1), np.uint8))
        data = sample[number].read_bytes() if sample else jpeg(pixels)
        (folder / f"{number:02}.jpeg").write_bytes(DAMAGE.get(number, bytes)(data))
    return [str(path) for path in sorted(folder.iterdir())]


def iterator(files, on_error, devices, **limits):
    def definition():
        jpegs, numbers = fn.readers.file(files=files, labels=range(COUNT), random_shuffle=True, name="r")
        images = fn.decoders.image_random_crop(jpegs, output_type=types.RGB)
        images = fn.resize(images, size=[16, 16])
        return fn.crop_mirror_normalize(images, mean=128.0, std=64.0, mirror=fn.random.coin_flip()), numbers

    sharding = NamedSharding(Mesh(np.array(jax.devices()[:devices]), ("batch",)), P("batch"))
    names = ["x", "y", *(["valid"] if on_error == "skip" else [])]
    make = data_iterator(definition, names, reader_name="r", sharding=sharding, on_error=on_error, **limits)
    return make(batch_size=8, seed=3, num_threads=devices % 3 + 1)


def taken(one, epochs=EPOCHS):
    return [jax.tree.map(np.asarray, batch) for _ in range(epochs) for batch in one]


def same(mine, theirs):
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        jax.tree.map(np.testing.assert_array_equal, one, other)


def step(weights, batch):
    def loss(weights):
        rows = jnp.tanh(batch["x"].reshape(8, -1) @ weights).sum(axis=1) - batch["y"][:, 0].astype(jnp.float32) / COUNT
        return jnp.where(batch.get("valid", jnp.ones(8, bool)), rows**2, jnp.float32(0)).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - jnp.float32(1e-3) * gradient, value


@pytest.mark.slow
@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_training_with_damaged_photographs(files, on_error, tmp_path):
    lists = {devices: tmp_path / f"{devices}.jsonl" for devices in (1, 2, 8)}
    made = {devices: iterator(files, on_error, devices, quarantine=path) for devices, path in lists.items()}
    batches = {devices: taken(one) for devices, one in made.items()}
    same(batches[2], batches[1])
    same(batches[8], batches[1])
    counts = {devices: one.stats()["bad samples"]["readers.file 'r'"] for devices, one in made.items()}
    assert counts == dict.fromkeys(lists, counts[1])
    found = {
        devices: [json.loads(line)["index"] for line in path.read_text().splitlines()]
        for devices, path in lists.items()
    }
    assert found == dict.fromkeys(lists, found[1])
    assert sorted(found[1]) == sorted(DAMAGE)
    numbers = np.concatenate([batch["y"].ravel() for batch in batches[1]])
    if on_error == "skip":
        assert counts[1] == EPOCHS * len(DAMAGE)
        good = np.concatenate([batch["valid"] for batch in batches[1]])
        assert sorted(numbers[good].tolist()) == sorted([*set(range(COUNT)) - set(DAMAGE)] * EPOCHS)
    else:
        assert counts[1] >= EPOCHS * len(DAMAGE)
        assert not set(numbers.tolist()) & set(DAMAGE)
    begun, resumed = (iterator(files, on_error, devices) for devices in (2, 8))
    for _ in range(4):
        next(begun)
    resumed.set_state(json.loads(json.dumps(begun.get_state())))
    same(taken(resumed), batches[1][4:])
    assert resumed.stats()["bad samples"]["readers.file 'r'"] == counts[1]
    loop = train.fit(
        train.data_parallel(step), np.ones((768, 2), np.float32), iterator(files, on_error, 8), epochs=EPOCHS
    )
    assert np.isfinite(np.asarray(loop.state)).all()
    assert loop.step == EPOCHS * COUNT // 8
    assert loop.iterator.stats()["bad samples"]["readers.file 'r'"] == counts[1]
    with pytest.raises(SampleError) as caught:
        taken(iterator(files, "raise", 2))
    assert (caught.value.index, caught.value.path) == (found[1][0], files[found[1][0]])
