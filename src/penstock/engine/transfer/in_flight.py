"""Keeping emulated devices from locking up under programs that pile up.

XLA's CPU client takes 32 programs per device at a time. A loop that dispatches steps without ever waiting reaches that
number; a program over several devices is then begun on some and blocked on others, and its first collective waits
for ever (seen on jax 0.10.2 and 0.12.0: eight emulated devices, one step with one collective, 300 times). Accelerators
do not have this limit. So, on the CPU only, the consumer waits with each batch until the devices have caught up, and a
loop may dispatch some 30 programs per batch. That takes half a millisecond. Each process waits for its own devices, at
the same batches; what they are busy with needs the others only up to those batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec


class InFlightLimit:
    """Waits for emulated devices.

    Args:
        devices: the local devices that a batch lies on.
    """

    def __init__(self, devices: Sequence[Any]) -> None:
        self._barrier = None
        if len(devices) > 1 and devices[0].platform == "cpu":
            two = np.array(devices[:2])  # every program over all devices runs on these, and before what follows it
            self._mesh = Mesh(two, ("device",), axis_types=(AxisType.Auto,))
            split, whole = (NamedSharding(self._mesh, PartitionSpec(*spec)) for spec in (("device",), ()))
            self._ones = jax.make_array_from_callback((2,), split, lambda _: np.ones(1, np.float32))
            self._barrier = jax.jit(lambda ones: ones.sum(), out_shardings=whole)

    def wait(self) -> None:
        """Wait until the devices have done what was dispatched to them; does nothing on others than emulated ones."""
        if self._barrier is not None:
            with jax.set_mesh(self._mesh):
                self._barrier(self._ones).block_until_ready()
