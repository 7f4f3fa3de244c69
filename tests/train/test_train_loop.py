"""Tests of the training loop: history, callbacks, resuming, signals."""

import os
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from train_callbacks import StopAt

from penstock import LastBatchPolicy, data_iterator, fn, train
from penstock.errors import MissingExtraError, StateError, UsageError

ADAM = optax.adam(0.01)


@pytest.fixture(autouse=True)
def standard_promotion():
    with jax.numpy_dtype_promotion("standard"):  # Optax is written for it
        yield


@pytest.fixture(scope="session")
def adam(errors):
    """Return a step with weights, Adam's moments, a key, and a count that starts as a Python number."""

    def step(state, batch):
        loss, gradient = jax.value_and_grad(lambda weights: errors(weights, batch).mean())(state["weights"])
        updates, moments = ADAM.update(gradient, state["moments"])
        key, drop = jax.random.split(state["key"])
        updates = jax.tree.map(lambda u: u * jax.random.bernoulli(drop, 0.9, u.shape), updates)
        weights = optax.apply_updates(state["weights"], updates)
        new = {"weights": weights, "moments": moments, "key": key, "count": state["count"] + 1, "name": state["name"]}
        return new, {"loss": loss}

    return step


@pytest.fixture
def state(weights):
    return {"weights": weights, "moments": ADAM.init(weights), "key": jax.random.key(1), "count": 0, "name": "net"}


def one_device():
    return train.batch_sharding(train.data_mesh(jax.devices()[:1]))


def bits(state):
    return [
        np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf).tobytes()
        for leaf in jax.tree.leaves(state)
        if isinstance(leaf, jax.Array)
    ]


class Recorder(train.Callback):
    def __init__(self):
        self.calls = []

    def on_train_start(self, loop):
        self.calls.append(("start", loop.step))

    def on_step_end(self, loop):
        self.calls.append(("step", loop.step))

    def on_epoch_end(self, loop):
        self.calls.append(("epoch", loop.epoch))

    def on_train_end(self, loop):
        self.calls.append(("end", loop.step))

    def teardown(self):
        self.calls.append("close")


def test_fit_matches_hand_written_loop(sgd, weights, samples, errors):
    recorder = Recorder()
    evaluation = train.Evaluate(errors, train.batches(samples, 16), "test_error")
    step = train.data_parallel(sgd)
    batches = train.batches(samples, 16, shuffle=True, seed=1)
    loop = train.fit(step, weights, batches, epochs=2, callbacks=[evaluation, recorder])
    state, losses, means = train.replicate(weights), [], []
    mine = train.batches(samples, 16, shuffle=True, seed=1)
    for _ in range(2):
        for batch in mine:
            state, metrics = step(state, batch)
            losses.append(float(metrics["loss"]))
        means.append(train.evaluate(errors, state, train.batches(samples, 16)))
    assert bits(loop.state) == bits(state)
    assert loop.history.steps == {"loss": losses}
    assert [epoch["loss"] for epoch in loop.history.epochs] == [np.mean(losses[:3]), np.mean(losses[3:])]
    assert [epoch["test_error"] for epoch in loop.history.epochs] == means
    steps = [("step", 1), ("step", 2), ("step", 3), ("epoch", 1), ("step", 4), ("step", 5), ("step", 6), ("epoch", 2)]
    assert recorder.calls == [("start", 0), *steps, ("end", 6), "close"]


def test_steps_instead_of_epochs(sgd, weights, samples):
    recorder = Recorder()
    loop = train.fit(
        train.data_parallel(sgd), weights, train.batches(samples, 16, shuffle=True), steps=4, callbacks=[recorder]
    )
    assert (loop.step, loop.epoch, len(loop.history.steps["loss"])) == (4, 1, 4)
    endless = data_iterator(lambda: fn.readers.arrays(samples["x"]), ["x"], size=-1, sharding=train.batch_sharding())
    count = train.data_parallel(lambda state, batch: state + batch["x"].shape[0])
    loop = train.fit(count, np.float32(0), endless(batch_size=16), steps=9)
    assert (float(loop.state), loop.epoch, loop.history.steps) == (144, 0, {})
    with pytest.raises(UsageError, match=r"steps=\.\.\."):
        train.fit(count, np.float32(0), endless(batch_size=16), epochs=1)


def test_fit_accepts_any_step_and_batches(weights, samples, sgd):
    batches = [{"x": samples["x"][:8], "y": samples["y"][:8]}] * 3
    loop = train.fit(jax.jit(sgd), weights, batches, epochs=2)
    assert (loop.step, loop.epoch, len(loop.history.epochs)) == (6, 2, 2)
    with pytest.raises(UsageError, match="no batches left"):
        train.fit(jax.jit(sgd), weights, iter(batches), epochs=2)
    with pytest.raises(UsageError, match="number of epochs or of steps"):
        train.fit(jax.jit(sgd), weights, batches)


def test_loop_does_not_wait_for_steps(monkeypatch, sgd, weights, samples):
    reads = []
    monkeypatch.setattr(jax, "device_get", lambda tree, get=jax.device_get: reads.append(len(tree)) or get(tree))
    loop = train.fit(train.data_parallel(sgd), weights, train.batches(samples, 8, shuffle=True), epochs=2)
    assert reads == [7, 7]  # once an epoch
    history = train.History()
    for number in range(1000):
        history.add(jnp.float32(number))
    assert max(reads) <= 128, "what is unread is bounded"
    assert history.steps["loss"] == list(range(1000))
    assert len(loop.history.steps["loss"]) == 14


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize("how", ["data_parallel", "shard_map", "jit"])
def test_step_metrics_must_be_scalars(how, devices):
    rows = train.batch_sharding(train.data_mesh(jax.devices()[:devices]))
    data = {"x": np.arange(32) % 3, "labels": (np.arange(32) % 3)[:, None]}
    recorder = Recorder()

    def fit(metrics):
        compiled = {
            "data_parallel": lambda step: train.data_parallel(step, rows),
            "shard_map": lambda step: train.data_parallel(step, rows, axis_name="batch"),
            "jit": jax.jit,
        }[how]
        step = compiled(lambda state, batch: (state, metrics(batch)))
        batches = train.batches(data, 16, sharding=rows)
        with jax.numpy_rank_promotion("allow"):
            return train.fit(
                step, train.replicate(np.float32(0), rows_of(rows)), batches, epochs=1, callbacks=[recorder]
            )

    def hit(batch):
        return (batch["x"] == batch["labels"]).astype(jnp.float32)

    size = 16 // devices if how == "shard_map" else 16
    for metrics, given in (
        (hit, f"loss of shape ({size}, {size})"),
        (lambda batch: {"loss": hit(batch).mean(), "a": {"b": hit(batch)}}, f"a.b of shape ({size}, {size})"),
        (lambda batch: {"x": batch["x"]}, f"x of shape ({size},)"),
    ):
        with pytest.raises(UsageError, match="a metric of a step is a scalar") as refused:
            fit(metrics)
        assert f"given:    {given}\n" in str(refused.value)
        assert "fn.squeeze(labels, axes=[0])" in str(refused.value)
        assert recorder.calls == [("start", 0), "close"]  # no second step
        recorder.calls.clear()
    assert fit(lambda batch: {"loss": hit(batch).mean()}).history.steps["loss"] != []


def rows_of(rows):
    """Return the sharding for full copies on the same devices."""
    return train.replicated_sharding(rows.mesh)


@pytest.mark.parametrize("devices", [1, 8])
def test_pmap_metrics_have_one_value_per_device(devices):
    local = jax.local_devices()[:devices]
    batch = np.arange(devices * 16, dtype=np.float32).reshape(devices, 16)

    def fit(metrics):
        step = jax.pmap(lambda state, x: (state, metrics(x)), "batch", devices=local)
        return train.fit(step, train.replicate_for_pmap(np.float32(0), local), [batch, batch], epochs=1).history

    assert fit(jnp.mean).steps == {"loss": [batch.mean()] * 2}
    with pytest.raises(UsageError, match=rf"loss of shape \({devices}, 16\)"):
        fit(lambda x: x)


def test_failed_training_closes_callbacks_and_threads(sgd, weights, samples, tmp_path):
    class Fails(train.Callback):
        def on_step_end(self, loop):
            raise ZeroDivisionError

    recorder = Recorder()
    with pytest.raises(ZeroDivisionError):
        train.fit(
            train.data_parallel(sgd),
            weights,
            train.batches(samples, 16),
            epochs=1,
            callbacks=[recorder, Fails(), train.StopOnSignal(), train.Checkpoint(tmp_path)],
        )
    assert recorder.calls[-1] == "close"
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_error_of_one_teardown_does_not_keep_others_from_theirs(sgd, weights, samples):
    class Fails(train.Callback):
        def teardown(self):
            raise ZeroDivisionError

    before = signal.getsignal(signal.SIGINT)
    callbacks = [Fails(), train.StopOnSignal()]
    with pytest.raises(ZeroDivisionError):
        train.fit(train.data_parallel(sgd), weights, train.batches(samples, 16), epochs=1, callbacks=callbacks)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_resumed_run_evaluates_on_the_same_random_batches(tmp_path):
    step = train.data_parallel(lambda total, batch: total + batch["x"].sum())

    @data_iterator(last_batch_policy=LastBatchPolicy.PAD, sharding=train.batch_sharding())
    def noisy(x):
        x = fn.readers.arrays(x, random_shuffle=True)
        return {"x": x + fn.random.uniform(range=(0.0, 1.0))}

    def run(*callbacks):
        numbers = np.arange(16, dtype=np.float32)
        values = noisy(numbers, batch_size=8, seed=3)
        next(values)
        values.next_epoch()  # it has been used before
        test = train.Evaluate(lambda total, batch: total * batch["x"], values, every=2)
        return train.fit(step, np.float32(0), train.batches(numbers, 8), epochs=6, callbacks=[test, *callbacks])

    whole = run().history.epochs
    run(StopAt(5), train.Checkpoint(tmp_path))
    assert run(train.Checkpoint(tmp_path)).history.epochs == whole
    assert len({epoch["test"] / (2 * number + 2) for number, epoch in enumerate(whole[1::2])}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("stop", [1, 7, 8])
def test_resumed_run_equals_uninterrupted_run(stop, adam, state, samples, errors, tmp_path):
    def run(*callbacks, epochs=2):
        batches = train.batches(samples, 8, shuffle=True, seed=3, sharding=one_device())
        test = train.Evaluate(errors, train.batches(samples, 8, sharding=one_device()))
        test._select_state = lambda state: state["weights"]
        step = train.data_parallel(adam, one_device())
        return train.fit(step, state, batches, epochs=epochs, callbacks=[test, *callbacks])

    whole = run()
    first = run(StopAt(stop), train.Checkpoint(tmp_path))
    assert (first.step, first.stopped) == (stop, "enough")
    second = run(train.Checkpoint(tmp_path))
    assert bits(second.state) == bits(whole.state)
    assert second.history.steps == whole.history.steps
    assert second.history.epochs == whole.history.epochs
    assert (second.step, second.epoch, second.state["name"]) == (14, 2, "net")
    assert isinstance(second.state["count"], jax.Array)


@pytest.mark.slow
def test_resuming_on_other_devices(adam, state, samples, tmp_path):
    def run(devices, *callbacks):
        sharding = train.batch_sharding(train.data_mesh(jax.devices()[:devices]))
        batches = train.batches(samples, 8, shuffle=True, seed=3, sharding=sharding)
        return train.fit(train.data_parallel(adam, sharding), state, batches, epochs=1, callbacks=callbacks)

    run(8, StopAt(3), train.Checkpoint(tmp_path))
    resumed, whole = run(2, train.Checkpoint(tmp_path)), run(1)
    for leaf, right in zip(
        jax.tree.leaves(resumed.state["weights"]), jax.tree.leaves(whole.state["weights"]), strict=True
    ):
        np.testing.assert_allclose(leaf, right, rtol=1e-4, atol=1e-6)
    assert len(resumed.state["weights"]["in"].devices()) == 2


def test_checkpoint_of_other_training_is_refused(sgd, weights, samples, tmp_path):
    def run(state, data):
        batches = train.batches(data, 8, shuffle=True, sharding=one_device())
        train.fit(
            train.data_parallel(sgd, one_device()), state, batches, epochs=1, callbacks=[train.Checkpoint(tmp_path)]
        )

    run(weights, samples)
    with pytest.raises(StateError, match=r"given:    more: nothing in the checkpoint\n  expected: float32\[2\] here"):
        run({**weights, "more": np.ones(2, np.float32)}, samples)
    with pytest.raises(StateError, match=r"out: float32\[16, 2\] in the checkpoint"):
        run({**weights, "out": np.ones((16, 3), np.float32)}, samples)
    with pytest.raises(StateError, match="belongs to another dataset"):
        run(weights, {name: values + 1 for name, values in samples.items()})
    with pytest.raises(UsageError, match="iterator with a state"):
        train.fit(jax.jit(sgd), weights, [samples], epochs=1, callbacks=[train.Checkpoint(tmp_path)])


PROGRAM = """
import os, signal, sys
import jax
import jax.numpy as jnp
import numpy as np
import optax
from penstock import train

x = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
adam = optax.adam(0.01)

def step(state, batch):
    weights, moments = state
    loss = lambda weights: ((jnp.tanh(batch["x"] @ weights) - batch["x"] ** 2) ** 2).mean()
    value, gradient = jax.value_and_grad(loss)(weights)
    updates, moments = adam.update(gradient, moments)
    return (optax.apply_updates(weights, updates), moments), value

class Kill(train.Callback):
    def __init__(self, how, when):
        self.how, self.when = how, when

    def on_step_end(self, loop):
        if loop.step == self.when:
            os.kill(os.getpid(), getattr(signal, self.how))

weights = np.eye(4, dtype=np.float32)
for folder, how, when in zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3]):
    loop = train.fit(
        train.data_parallel(step), (weights, adam.init(weights)), train.batches({"x": x}, 8, shuffle=True), epochs=3,
        callbacks=[train.StopOnSignal(), Kill(how, int(when)), train.Checkpoint(folder, save_interval_steps=4)],
    )
    print("DONE", loop.step, loop.stopped, np.asarray(loop.state[0]).tobytes().hex())
"""


def run_program(*trainings):
    """Train in one process. Each training has a folder, a signal, and the step at which it is sent (0: never)."""
    command = [sys.executable, "-c", PROGRAM, *(str(word) for training in trainings for word in training)]
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=variables)


@pytest.mark.slow
def test_run_killed_at_random_step_resumes_exactly(tmp_path):
    when = int(np.random.default_rng().integers(5, 74))
    killed = run_program((tmp_path / "killed", "SIGKILL", when))
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, ""), killed.stderr
    done = run_program((tmp_path / "killed", "-", 0), (tmp_path / "whole", "-", 0))
    report, again, whole = done.stdout.splitlines()
    assert report.startswith("resumed at step ")
    assert whole.split()[:3] == ["DONE", "75", "None"]
    assert again == whole, f"killed at step {when}"


@pytest.mark.slow
def test_signal_stops_training_with_checkpoint(tmp_path):
    """The handlers of the first training are gone when the second one is stopped."""
    signals = ("SIGTERM", "SIGINT")
    stopped = run_program(*((tmp_path / how, how, 30) for how in signals))
    assert stopped.returncode == 0, stopped.stderr
    lines = stopped.stdout.splitlines()
    for how, report, result in zip(signals, lines[::2], lines[1::2], strict=True):
        name, step, why, _ = result.split()
        assert report == f"stopped at step {step} of 75: {how}"
        assert (name, why) == ("DONE", how)
        assert step in ("30", "31")  # the interpreter may run the handler a little later
        assert (tmp_path / how / step).is_dir()


def test_plot_writes_image(tmp_path):
    history = train.History()
    history.add({"loss": 2.0})
    history.end_epoch({"accuracy": 0.5})
    figure = history.plot(tmp_path / "new" / "curves.png")
    assert (tmp_path / "new" / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert figure._repr_png_()[:4] == b"\x89PNG"
    assert [axes.get_xlabel() for axes in history.plot().axes] == ["step", "epoch"]


@pytest.mark.parametrize(
    ("module", "make"),
    [
        ("orbax.checkpoint", lambda: train.Checkpoint("x")),
        ("tqdm", train.ProgressBar),
        ("matplotlib.figure", lambda: train.History().plot("x.png")),
    ],
)
def test_missing_package_is_named(module, make, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r'pip install "penstock\[train\]"'):
        make()


def test_import_does_not_load_optional_packages():
    heavy = ("orbax", "tqdm", "matplotlib", "flax", "equinox", "optax")
    code = f"import sys, penstock.train; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("saves", [None, 3])
@pytest.mark.parametrize("stop", [2, 3, 6, 9])
def test_epochs_that_a_source_ends_are_counted_at_their_last_step(stop, saves, tmp_path):
    @train.data_parallel
    def step(total, batch):
        return total + batch["x"].mean(), batch["x"].mean()

    @data_iterator(sharding=train.batch_sharding())
    def definition():
        return {"x": fn.external_source(lambda n: np.full(8, n, np.float32) if n < 3 else next(iter(())))}

    def fit(folder, **options):
        callbacks = [train.Checkpoint(tmp_path / folder, save_interval_steps=saves)]
        if "stop" in options:
            callbacks.insert(0, StopAt(options.pop("stop")))
        return train.fit(step, np.float32(0), definition(batch_size=8, seed=0), callbacks=callbacks, **options)

    stopped = fit("steps", steps=9, stop=stop)
    assert (stopped.step, stopped.epoch) == (stop, stop // 3)
    resumed = fit("steps", steps=9)
    whole = fit("epochs", epochs=3)
    for loop in (resumed, whole):
        assert (loop.step, loop.epoch, float(loop.state)) == (9, 3, 9.0)
        assert loop.history.epochs == [{"loss": 1.0}] * 3
    with pytest.raises(UsageError, match=r"external source ends the epoch(.|\n)*fn.readers.items"):
        train.evaluate(lambda _, batch: batch["x"], 0.0, whole.iterator)
    assert train.evaluate(lambda _, batch: batch["x"], 0.0, (batch for batch in whole.iterator)) == 1


def test_endless_iterators_have_no_epochs():
    endless = data_iterator(lambda: {"x": fn.readers.arrays(np.arange(4))}, size=-1)(batch_size=2, device_id=0)
    assert endless.is_endless
    with pytest.raises(UsageError, match="endless"):
        train.fit(lambda state, batch: state, 0, endless, epochs=1)
    with pytest.raises(UsageError, match="endless"):
        train.evaluate(lambda _, batch: batch["x"], 0, endless)
