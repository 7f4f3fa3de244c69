"""Extension of IPython that shows batches and samples of iterators, which are dicts of arrays, with their images."""

import sys
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from penstock.display.batch_html import MAX_SHOWN, images_html
from penstock.display.html_table import html_table
from penstock.display.sample_pixels import has_image_shape


def load_ipython_extension(ipython: Any) -> None:
    """Show dicts of `jax.Array`s as a table with their first images. ``%load_ext penstock`` calls this.

    Other dicts keep their text. Only the extension changes how a notebook shows a dict; an import does not.

    Args:
        ipython: The shell of the notebook.
    """
    ipython.display_formatter.formatters["text/html"].for_type(dict, arrays_html)


def unload_ipython_extension(ipython: Any) -> None:
    """Show all dicts as text again. ``%unload_ext penstock`` calls this.

    Args:
        ipython: The shell of the notebook.
    """
    ipython.display_formatter.formatters["text/html"].pop(dict, None)


def arrays_html(arrays: Mapping[Any, Any]) -> str | None:
    """Return a batch or a sample as HTML, or None for a dict of other values.

    It is a batch if all arrays have one length, unless all have the shape of one color image. Images are found by their
    shape. The first samples of an image array are copied to the host, unless other processes hold a part of it.

    Args:
        arrays: `jax.Array`s by name.

    Example:
        >>> import jax.numpy as jnp
        >>> html = arrays_html({"images": jnp.zeros((20, 8, 8, 3)), "labels": jnp.arange(20)})
        >>> html.count("<img"), arrays_html({"a": 1})
        (8, None)
    """
    jax = sys.modules.get("jax")
    if not arrays or jax is None or not all(isinstance(value, jax.Array) for value in arrays.values()):
        return None
    named = {str(name): cast(Any, value) for name, value in arrays.items()}
    lengths = {value.shape[:1] for value in named.values()}
    batch = (
        len(lengths) == 1 and () not in lengths and not all(has_image_shape(value.shape) for value in named.values())
    )
    rows = next(iter(lengths))[0] if batch else None
    cells = [
        [name, str(value.dtype), str(list(value.shape)), str(len(value.sharding.device_set))]
        for name, value in named.items()
    ]
    caption = "sample" if rows is None else f"batch of {rows}"
    parts = [html_table(caption, ["output", "dtype", "shape", "devices"], cells)]
    for value in named.values():
        # A jitted function may have deleted a donated array, and keys have no numbers.
        shown = not value.is_deleted() and not jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
        if shown and value.is_fully_addressable and value.ndim > (rows is not None):
            samples = value[None] if rows is None else value[:MAX_SHOWN]
            parts.append(images_html(list(np.asarray(samples)), ""))
    return "\n".join(part for part in parts if part)
