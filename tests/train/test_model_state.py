"""State beyond parameters: averages of batch normalization, and random keys, on any number of devices."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from penstock import train
from tests.train.stateful_models import DATA, TRAININGS, X, arrays_of, run


@pytest.mark.slow
@pytest.mark.parametrize("training", TRAININGS)
def test_normalization_averages_over_the_global_batch(training):
    alone = arrays_of(run(training).state)
    assert any(array.dtype == np.float32 for array in alone)
    for one, several in zip(alone, arrays_of(run(training, 8).state), strict=True):
        if one.dtype == np.float32:
            np.testing.assert_allclose(several, one, rtol=0, atol=1e-5)
        else:
            np.testing.assert_array_equal(several, one)


@pytest.mark.slow
@pytest.mark.parametrize("training", TRAININGS)
def test_resumed_run_is_bit_identical(training, tmp_path):
    whole = arrays_of(run(training, 8).state)
    run(training, 8, steps=7, callbacks=[train.Checkpoint(tmp_path)])
    resumed = arrays_of(run(training, 8, callbacks=[train.Checkpoint(tmp_path)]).state)
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("training", TRAININGS)
def test_dropout_differs_between_steps(training, monkeypatch):
    """Steps on the same batch with a learning rate of zero have different losses only if their masks differ."""
    monkeypatch.setattr(optax, "sgd", lambda _, real=optax.sgd: real(0.0))
    step, state = training()
    batches = [{name: rows[:16] for name, rows in DATA.items()}] * 4
    losses = train.fit(train.data_parallel(step), state, batches, steps=4).history.steps["loss"]
    assert len(set(losses)) == 4


def test_statistics_are_per_device_with_an_axis_name():
    norm = nn.BatchNorm(use_running_average=False, use_bias=False, use_scale=False, momentum=0.0)

    def step(averages, batch):
        _, changed = norm.apply(averages, batch["x"], mutable=["batch_stats"])
        return jax.lax.pmean(changed, "batch")

    averages = norm.init(jax.random.key(0), X[:1])
    per_device = train.data_parallel(step, axis_name="batch")(averages, {"x": X})["batch_stats"]["var"]
    of_devices = np.mean([part.var(axis=0) for part in np.split(X, 8)], axis=0)
    np.testing.assert_allclose(per_device, of_devices, rtol=1e-5)
    whole = train.data_parallel(lambda averages, batch: norm.apply(averages, batch["x"], mutable=["batch_stats"])[1])
    np.testing.assert_allclose(whole(averages, {"x": X})["batch_stats"]["var"], X.var(axis=0), rtol=1e-5)
    assert np.abs(X.var(axis=0) - of_devices).min() > 0.1


def test_a_key_per_step_survives_accumulation():
    """Keys per row, as a leaf of the batch, give each part of a batch its own random numbers."""

    def noise(scale, batch):
        return scale * jax.vmap(jax.random.normal)(batch["keys"]).mean()

    keys = jax.random.split(jax.random.key(0), 16)
    whole = noise(jnp.float32(2), {"keys": keys})
    parts = train.accumulate_gradients(noise, accumulate=4)(jnp.float32(2), {"keys": keys})
    np.testing.assert_allclose(parts, whole, rtol=1e-6)
