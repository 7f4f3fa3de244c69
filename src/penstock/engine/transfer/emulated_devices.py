"""Limit of programs in flight on emulated devices, which deadlock without it.

XLA's CPU client accepts 32 programs per device at a time. A loop that dispatches steps without ever waiting reaches
that number. A program over several devices then starts on some of them and is blocked on others, and its first
collective waits forever (seen with JAX 0.10.2 and 0.12.0: eight emulated devices, a step with one collective, 300
times). Accelerators do not have this limit. So, on the CPU only, the consumer waits at each batch until the devices
have caught up, which takes half a millisecond; a loop may dispatch about 30 programs per batch. Each process waits for
its own devices, at the same batches. Their programs depend on other processes only up to those batches, so the wait
ends.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from penstock.engine.transfer.global_arrays import global_array


class InFlightLimit:
    """Waits for emulated devices.

    Args:
        devices: The local devices of a batch.
    """

    def __init__(self, devices: Sequence[Any]) -> None:
        self._barrier = None
        if len(devices) > 1 and devices[0].platform == "cpu":
            # A barrier on two devices suffices: programs over all devices run on these two in order of dispatch.
            two = np.array(devices[:2])
            self._mesh = Mesh(two, ("device",), axis_types=(AxisType.Auto,))
            split, whole = (NamedSharding(self._mesh, PartitionSpec(*spec)) for spec in (("device",), ()))
            self._ones = global_array((2,), split, lambda _: np.ones(1, np.float32))
            self._barrier = jax.jit(lambda ones: ones.sum(), out_shardings=whole)

    def wait(self) -> None:
        """Wait until the devices have executed all dispatched programs; return at once if they are not emulated."""
        if self._barrier is not None:
            with jax.set_mesh(self._mesh):
                self._barrier(self._ones).block_until_ready()
