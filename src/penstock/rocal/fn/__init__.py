"""Operators of rocAL's `amd.rocal.fn`, from the table in `penstock.rocal.operator_table`."""

from typing import Any

from penstock.rocal.fn import decoders as decoders
from penstock.rocal.fn import random as random
from penstock.rocal.fn import readers as readers
from penstock.rocal.operator_table import offer
from penstock.rocal.pipeline import current_pipeline


def one_hot(*_labels: Any, num_classes: int = 0, **_hints: Any) -> list[Any]:
    """Convert the labels of the pipeline to one-hot encoding, int32 of shape (batch_size, num_classes).

    Returns:
        An empty list, as in rocAL: labels do not pass through the graph; the pipeline appends them to the outputs.
    """
    # The labels exist only on the pipeline, so its outputs are where the conversion happens (`Pipeline.set_outputs`).
    current_pipeline().num_classes = num_classes
    return []


__getattr__, __dir__ = offer("", "decoders", "one_hot", "random", "readers")
