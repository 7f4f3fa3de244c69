from typing import Any

import numpy as np

def decode_jpeg_header(
    data: Any, min_height: int = ..., min_width: int = ..., min_factor: float = ..., strict: bool = ...
) -> tuple[int, int, str, str]: ...
def decode_jpeg(
    data: Any,
    colorspace: str = ...,
    fastdct: bool = ...,
    fastupsample: bool = ...,
    min_height: int = ...,
    min_width: int = ...,
    min_factor: float = ...,
    buffer: np.ndarray[Any, Any] | None = ...,
    strict: bool = ...,
) -> np.ndarray[Any, Any]: ...
