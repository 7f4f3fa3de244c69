"""Inputs of audio operators."""

from typing import Annotated

from penstock.graph import DataNode, Input

# Signals of one axis.
Signal = Annotated[
    DataNode,
    Input(("number",), (None,), needs="signals", fix="fn.decoders.audio(x, downmix=True), which returns one axis"),
]

# Signals with channels, spectrograms and the like.
Signals = Annotated[DataNode, Input(("number",), ranks=range(1, 65), needs="signals")]
