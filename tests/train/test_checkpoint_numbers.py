"""Tests of Python numbers in checkpoints."""

import json

import jax
import numpy as np

from penstock import train
from penstock.train.checkpoint_numbers import with_numbers

ONE = train.batch_sharding(train.data_mesh(jax.devices()[:1]))
STATE = {"sum": np.float32(0), "count": 0, "odd": False, "phase": 2j, "rate": 0.5, "size": 0.1}


def step(state, batch):
    """Count in Python, as a step can that is not compiled as a whole."""
    changed = {"sum": state["sum"] + batch["x"].sum() * state["rate"], "count": state["count"] + 1}
    return {**state, **changed, "odd": not state["odd"], "phase": state["phase"] * 1j, "size": state["size"] / 3}


def run(folder, steps, state=STATE, step=step):
    data = train.batches(np.arange(32, dtype=np.float32), 8, shuffle=True, sharding=ONE)
    return train.fit(step, state, data, steps=steps, callbacks=[train.Checkpoint(folder)]).state


def test_numbers_that_the_training_changes_are_resumed(tmp_path):
    whole = run(tmp_path / "whole", 6)
    run(tmp_path / "resumed", 3)
    resumed = run(tmp_path / "resumed", 6)
    assert resumed == whole
    assert {name: type(value) for name, value in resumed.items() if name != "sum"} == {
        "count": int,
        "odd": bool,
        "phase": complex,
        "rate": float,
        "size": float,
    }


def test_numbers_that_no_step_changes_are_those_of_the_program(tmp_path):
    run(tmp_path, 3)
    assert run(tmp_path, 4, {**STATE, "rate": 0.25})["rate"] == 0.25
    numbers = json.loads((tmp_path / "4" / "training.json").read_text())["numbers"]
    assert numbers[0] == [["count"], "int", "4"]
    assert [path for path, *_ in numbers] == [["count"], ["size"]]  # "odd" and "phase" are as at the start


def test_metadata_without_numbers_is_that_of_an_earlier_version():
    assert with_numbers(STATE, []) is STATE
