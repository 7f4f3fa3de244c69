"""The state of an iterator: a few numbers, as plain JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.data.schedule import Step
from penstock.errors import StateError

VERSION = 1


def pack(
    step: Step, seed: int, definition: str, dataset: str, operators: Sequence[Sequence[Any]] | None
) -> dict[str, Any]:
    """The state at a step, with what it belongs to. At most 1 KB of JSON, and the arrays that operators carry."""
    state: dict[str, Any] = {} if operators is None else {"operators": [list(leaves) for leaves in operators]}
    return state | {
        "version": VERSION,
        "definition": definition,
        "dataset": dataset,
        "seed": seed,
        "epoch": step.epoch,
        "row": step.row,
        "totals": list(step.totals),
    }


def unpack(state: Mapping[str, Any], definition: str, dataset: str, rows: int, readers: int) -> tuple[Step, int]:
    """The step and the seed of a state.

    Raises:
        StateError: it is no state, or belongs to another definition or data set.
    """
    missing = {"version", "definition", "dataset", "seed", "epoch", "row", "totals"} - set(state)
    if missing or state["version"] != VERSION:
        raise StateError(
            "this is no state of an iterator",
            given=f"without {', '.join(sorted(missing))}" if missing else f"version {state['version']}",
            expected=f"what state() returned, version {VERSION}",
        )
    for what, mine in (("definition", definition), ("dataset", dataset)):
        if state[what] != mine:
            raise StateError(
                f"the state belongs to another {what}",
                given=f"{state[what]} in the state",
                expected=f"{mine} here",
                fix=f"restore it into an iterator over the {what} that it was taken from",
            )
    if len(state["totals"]) != readers:
        raise StateError("the state has another number of readers", given=len(state["totals"]), expected=readers)
    return Step(int(state["epoch"]), int(state["row"]), tuple(map(int, state["totals"])), rows), int(state["seed"])


def encode(array: Any) -> dict[str, Any]:
    """An array as JSON."""
    values = np.asarray(array)
    return {
        "dtype": str(values.dtype),
        "shape": list(values.shape),
        "data": base64.b64encode(values.tobytes()).decode("ascii"),
    }


def carried(state: Mapping[str, Any]) -> list[list[Any]] | None:
    """The arrays that operators carry, from a state or from the JSON of it."""
    if "operators" not in state:
        return None
    return [[_decode(leaf) if isinstance(leaf, Mapping) else leaf for leaf in leaves] for leaves in state["operators"]]


def _decode(leaf: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    data = base64.b64decode(leaf["data"])
    return np.frombuffer(data, np.dtype(leaf["dtype"])).reshape(leaf["shape"])
