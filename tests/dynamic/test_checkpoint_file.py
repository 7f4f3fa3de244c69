"""Checkpoints of dynamic mode."""

import json

import numpy as np
import penstock.experimental.dynamic as ndd
import pytest

from penstock.errors import ArgumentTypeError, ContextError, StateError, UsageError

Checkpoint = ndd.checkpoint.Checkpoint


def reader():
    return ndd.readers.Arrays(data=np.arange(10), random_shuffle=True)


def values(epoch):
    return [x.item() for (batch,) in epoch for x in batch]


def test_a_program_resumes_from_a_file(tmp_path):
    pattern = str(tmp_path / "saves" / "run_{seq:03d}.json")
    data, rng, checkpoint = reader(), ndd.random.RNG(3), Checkpoint()
    assert checkpoint.register(data, "reader") == "reader"
    assert checkpoint.register(rng) == "__op_1"
    assert checkpoint.register(rng) == "__op_1"
    assert (len(checkpoint), "reader" in checkpoint, checkpoint.names) == (2, True, ("reader", "__op_1"))
    next(data.next_epoch(batch_size=4))
    ndd.random.uniform(rng=rng)
    checkpoint.collect()
    assert checkpoint.is_complete
    assert checkpoint.save(pattern).endswith("run_000.json")
    next(data.next_epoch(batch_size=4))
    checkpoint.collect()
    path = checkpoint.save(pattern)
    assert path.endswith("run_001.json")
    expected = values(data.next_epoch(batch_size=4)), ndd.random.uniform(rng=rng).item()

    resumed, other, generator = Checkpoint(), reader(), ndd.random.RNG(0)
    assert resumed.load(pattern) == path
    assert resumed.is_loaded
    resumed.register(other, "reader")
    resumed.register(generator)
    assert (values(other.next_epoch(batch_size=4)), ndd.random.uniform(rng=generator).item()) == expected
    assert Checkpoint().load(pattern) == path
    assert resumed.save(pattern).endswith("run_002.json")


def test_restore_applies_all_states():
    rng, checkpoint = ndd.random.RNG(3), Checkpoint()
    checkpoint.register(rng, "rng")
    checkpoint.set_state("rng", ndd.random.RNG(7).state, ndd.random.RNG)
    checkpoint.restore()
    assert rng() == ndd.random.RNG(7)()
    assert checkpoint.get_state("rng") == ndd.random.RNG(7).state
    checkpoint.clear()
    assert len(checkpoint) == 0
    checkpoint.restore()


def test_a_context_has_a_checkpoint():
    assert ndd.checkpoint.current() is ndd.EvalContext.current().checkpoint
    with ndd.EvalContext() as context:
        assert ndd.checkpoint.current() is context.checkpoint is not ndd.EvalContext.default().checkpoint


def test_states_that_do_not_fit_are_refused(tmp_path):
    checkpoint, rng = Checkpoint(), ndd.random.RNG(1)
    with pytest.raises(ContextError, match="is empty"):
        checkpoint.serialize()
    checkpoint.register(rng, "a")
    with pytest.raises(ContextError, match="already"):
        checkpoint.register(rng, "b")
    with pytest.raises(ArgumentTypeError, match="another class"):
        checkpoint.register(reader(), "a")
    for name in ("", "__op_7"):
        with pytest.raises(StateError, match="must not be empty or begin"):
            checkpoint.register(ndd.random.RNG(2), name)
    with pytest.raises(ArgumentTypeError, match="holds readers"):
        checkpoint.register(object())
    checkpoint.collect()
    with pytest.raises(ContextError, match="complete"):
        checkpoint.register(ndd.random.RNG(2), "c")
    for call in (lambda: checkpoint.get_state("c"), lambda: checkpoint.set_state("c", "x")):
        with pytest.raises(KeyError, match="no object has this name"):
            call()
    with pytest.raises(ArgumentTypeError, match="op_type"):
        checkpoint.set_state("a", "x", 3)
    text = checkpoint.serialize()
    loaded = Checkpoint()
    loaded.deserialize(text)
    with pytest.raises(KeyError, match="no such name"):
        loaded.register(ndd.random.RNG(2), "c")
    with pytest.raises(ArgumentTypeError, match="belongs to another class"):
        loaded.register(reader(), "a")
    with pytest.raises(ContextError, match="no object"):
        Checkpoint.restore(_with_states(text))
    with pytest.raises(ContextError, match="no object"):
        _with_states(text).collect()
    for wrong in (
        "",
        "{}",
        json.dumps({"version": 2, "states": {"a": 3}}),
        json.dumps({"version": 2, "states": {"a": {"state": "x", "type": 3}}}),
    ):
        with pytest.raises(StateError, match="not a checkpoint"):
            loaded.deserialize(wrong)
    with pytest.raises(StateError, match="another version"):
        loaded.deserialize(json.dumps({"version": 1, "states": {}}))
    for pattern in ("a.json", "{other}.json", "{seq}{seq}.json", "{seq}/a.json"):
        with pytest.raises(UsageError, match=r"seq|number"):
            checkpoint.save(str(tmp_path / pattern))
    with pytest.raises(FileNotFoundError, match="no checkpoint matches"):
        checkpoint.load(str(tmp_path / "{seq}.json"))


def _with_states(text):
    checkpoint = Checkpoint()
    checkpoint.deserialize(text)
    return checkpoint
