"""Annotations of numbers that may differ between samples, and neutral values for those that an operator lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from penstock.graph import Argument, DataNode

# One number for all samples, or a node with one per sample.
Number = Annotated[float | DataNode, Argument(np.float32)]

# The same, or None, which leaves the argument out.
OptionalNumber = Annotated[float | DataNode | None, Argument(np.float32)]

# Several numbers for all samples, or a node with them per sample; one number is a vector of one.
Numbers = Annotated[float | Sequence[float] | DataNode, Argument(np.float32, (None,))]

# The same, or None.
OptionalNumbers = Annotated[Sequence[float] | DataNode | None, Argument(np.float32, (None,))]

# Values that kernels take for arguments that an operator does not have. They broadcast over the rows of a batch.
ZERO, ONE = np.zeros(1, np.float32), np.ones(1, np.float32)
