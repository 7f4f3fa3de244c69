"""rocAL's `amd.rocal.fn`: its operators, as `penstock.rocal.operator_table` maps them."""

from typing import Any

from penstock.rocal.fn import decoders as decoders
from penstock.rocal.fn import random as random
from penstock.rocal.fn import readers as readers
from penstock.rocal.operator_table import offer
from penstock.rocal.pipeline import current_pipeline


def one_hot(*_labels: Any, num_classes: int = 0, **_hints: Any) -> list[Any]:
    """Make the labels of the pipeline one-hot, int32 of shape (batch_size, num_classes).

    Returns:
        An empty list, as there: labels are not passed through the graph, but appended to the outputs.
    """
    current_pipeline().num_classes = num_classes
    return []


__getattr__, __dir__ = offer("", "decoders", "one_hot", "random", "readers")
