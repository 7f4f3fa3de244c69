from typing import Any

from penstock.fn import decoders as decoders
from penstock.fn import inputs as inputs
from penstock.fn import readers as readers

def __getattr__(name: str) -> Any: ...  # pyright: ignore[reportIncompleteStub]  # older names
