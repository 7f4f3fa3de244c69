"""Watch on the global random generators while a definition is traced."""

import pickle
import random
from typing import Any

import numpy as np

from penstock.core import CallSite
from penstock.core.warn_once import warn_once


class GlobalGenerators:
    """States of Python's and NumPy's global generators, to find numbers that a definition draws from them.

    A definition runs once, so such a number is the same in every batch.

    Args:
        name: Name of the definition.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._states = _states()

    def check(self, where: CallSite) -> None:
        """Warn if a generator was used since the last call.

        Args:
            where: The line to name: that of the operator called next, which the number is for in most programs.
        """
        states = _states()
        for module, state in states.items():
            if state != self._states[module]:
                warn_once(
                    module,
                    f"{self._name} draws from {module} while it is traced, so all samples of all batches get the same "
                    "number",
                    fix="fn.random.uniform, fn.random.normal, fn.random.choice or fn.random.coin_flip, which draw for "
                    "each sample; a number that is meant to be constant, draw before the definition",
                    where=where,
                )
        self._states = states

    def skip(self) -> None:
        """Ignore the numbers drawn since the last call: a function of the user that is tried on a sample may draw."""
        self._states = _states()


def _states() -> dict[str, Any]:
    # Not the tuple of the older form, which other generators than NumPy's first one do not have.
    state = np.random.get_state(legacy=False)  # noqa: NPY002  # the global generator is what is watched
    return {"np.random": pickle.dumps(state), "random": random.getstate()}
