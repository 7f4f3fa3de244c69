"""Input of decoders."""

from typing import Annotated

from penstock.graph import DataNode, Input

# The bytes of a file, as readers return them.
EncodedBytes = Annotated[
    DataNode, Input(("uint8",), (None,), needs="encoded bytes", fix="give it the first output of a reader")
]
