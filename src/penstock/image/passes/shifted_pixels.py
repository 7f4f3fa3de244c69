"""Reading of the neighbors of pixels in the device program, where indices may be outside of an image."""
# pyright: basic
# JAX is typed in part only

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.image.kernels.border_modes import Border
from penstock.numerics.ordered_sums import no_fma


def fold_index_xla(at: Any, size: Any, border: Border) -> Any:
    """Return the indices of the pixels inside that possibly outside indices refer to, as `fold_index` on the host."""
    import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

    match border:
        case Border.WRAP:
            return at % size
        case Border.REFLECT:
            return jnp.minimum(at % (2 * size), 2 * size - 1 - at % (2 * size))
        case Border.REFLECT_101:
            period = jnp.maximum(2 * size - 2, 1)
            return jnp.where(size > 1, jnp.minimum(at % period, period - at % period), 0)
        case _:
            return jnp.clip(at, 0, size - 1)


def read_along(values: Any, axis: int, at: Any, extent: Any, border: Border) -> tuple[Any, Any]:
    """Read pixels along one axis.

    Args:
        values: Batch (rows, ...).
        axis: Axis of the batch.
        at: Indices, int32 (rows or 1, n); they may be outside of the images.
        extent: Extents of the images along the axis, int32 (rows or 1,). The batch may be larger: a canvas.
        border: Border mode; CONSTANT counts as REPLICATE.

    Returns:
        The pixels, and True for indices that are outside, in a shape that broadcasts to that of the pixels.
    """
    import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

    size = extent[:, None]
    # An image without pixels along the axis must not make the gather leave the batch.
    index = jnp.clip(fold_index_xla(at, size, border), 0, size - 1)
    shape = (-1, *(index.shape[1] if place == axis else 1 for place in range(1, values.ndim)))
    picked = jnp.take_along_axis(values, index.reshape(shape), axis=axis)
    return picked, ((at < 0) | (at >= size)).reshape(shape)


def weigh_along(values: Any, axis: int, extent: Any, radius: Any, weigh: Callable[[Any], Any]) -> Any:
    """Sum the weighted neighbors of each pixel along one axis. Images are mirrored without their edge pixels.

    Args:
        values: Batch (rows, ...), float32.
        axis: Axis of the batch.
        extent: Extents of the images along the axis, int32 (rows or 1,).
        radius: Number of neighbors on each side.
        weigh: Function from the number of a neighbor, from 0 on, to its weights, float32 (rows or 1,).
    """
    import jax  # noqa: PLC0415  # for the device program alone
    import jax.numpy as jnp  # noqa: PLC0415  # likewise

    place = jnp.arange(values.shape[axis], dtype=np.int32)[None, :]

    def add(k: Any, total: Any) -> Any:
        picked, _ = read_along(values, axis, place + k - radius, extent, Border.REFLECT_101)
        weight = weigh(k).reshape(-1, *(1,) * (values.ndim - 1))
        # A weight of 0 must not contribute, even where a pixel is infinite or NaN; the compiled loop skips it.
        return total + jnp.where(weight == 0, 0, no_fma(jnp, picked * weight))

    return jax.lax.fori_loop(0, 2 * radius + 1, add, jnp.zeros_like(values))
