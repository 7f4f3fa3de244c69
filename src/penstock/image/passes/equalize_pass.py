"""Histogram equalization of bytes."""
# pyright: basic
# JAX is typed in part only

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.describe.custom_pass import InPlacePass, PassImages, as_planes, from_planes
from penstock.native.compiled import Compiled, precompile


@dataclass(frozen=True)
class EqualizePass(InPlacePass):
    """Histogram equalization of each channel, as OpenCV's equalizeHist does it.

    The smallest byte that occurs becomes 0, the largest 255. In between, a byte is mapped by the cumulative
    distribution. A channel with a single value is unchanged.

    Args:
        layout: Layout of the images.
    """

    layout: str

    def run_host(self, images: PassImages, terms: Sequence[Any]) -> None:
        """Equalize all planes in one call."""
        planes = images.planes(self.layout)
        channels = int(planes.sizes_in[:, 2].max(initial=0))
        memory = np.empty(512 * channels, np.int32), np.empty(256 * channels, np.uint8)
        equalize_planes(planes.pixels, planes.read, planes.sizes_in, planes.out, planes.write, *memory)

    def trace_xla(self, images: Any, shapes: Any, terms: Sequence[Any], out_shapes: Any, shape: tuple[int, ...]) -> Any:
        """Count bytes with scatter-add."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        values = as_planes(images, self.layout)
        rows, planes, height, width, channels = values.shape
        index = values.transpose(0, 1, 4, 2, 3).reshape(rows * planes * channels, height * width).astype(np.int32)
        # Padding beyond an image's extents must not be counted.
        inside = jnp.ones((1, 1, 1, height, width), bool)
        for axis, letter in enumerate("HW"):
            at = jnp.arange(values.shape[2 + axis]).reshape((1, 1, 1, -1, 1) if axis == 0 else (1, 1, 1, 1, -1))
            inside = inside & (at < shapes[:, self.layout.index(letter)].reshape(-1, 1, 1, 1, 1))
        ones = jnp.broadcast_to(inside, (rows, planes, channels, height, width)).reshape(index.shape)
        number = jnp.arange(len(index))[:, None]
        counts = jnp.zeros((len(index), 256), np.int32).at[number, index].add(ones.astype(np.int32))
        total, sums = counts.sum(axis=1, keepdims=True), jnp.cumsum(counts, axis=1)
        first = jnp.take_along_axis(counts, jnp.argmax(counts > 0, axis=1)[:, None], axis=1)
        scale = np.float32(255) / jnp.maximum(total - first, 1).astype(np.float32)
        table = jnp.clip(jnp.rint((sums - first).astype(np.float32) * scale), 0, 255)
        table = jnp.where(first == total, jnp.arange(256, dtype=np.float32)[None, :], table)
        values_out = jnp.take_along_axis(table, index, axis=1).reshape(rows, planes, channels, height, width)
        return from_planes(values_out.transpose(0, 1, 3, 4, 2), self.layout, shape)


_ONE, _TWO, _ENTRIES = np.uint64(1), np.uint64(2), np.uint64(256)


@precompile("u1[1] i8[2] i8[2] u1[1] i8[2] i4[1] u1[1]")
@Compiled
def equalize_planes(
    pixels: Array, place_in: Array, sizes: Array, out: Array, place_out: Array, counts: Array, table: Array
) -> None:
    """Equalize planes of bytes, each channel with its own table.

    Args:
        pixels: uint8.
        place_in: int64 (planes, 4), offset of the first element, then the strides of rows, columns and channels.
        sizes: int64 (planes, 3), height, width, channels.
        out: uint8.
        place_out: As `place_in`.
        counts: int32 (512 * channels,); overwritten.
        table: uint8 (256 * channels,); overwritten.
    """
    for n in range(place_in.shape[0]):
        height, width, channels, place = sizes[n, 0], sizes[n, 1], sizes[n, 2], place_in[n]
        counts[: 512 * channels] = 0
        for y in range(height):
            # Three channels at once: incrementing the same counter twice in a row waits for the first store, and other
            # counters fill the time.
            for c in range(0, channels, 3):
                some = counts[512 * c : 512 * min(c + 3, channels)]
                count(pixels, place[0] + y * place[1] + c * place[3], place[2], place[3], width, some)
        for c in range(channels):
            some = counts[512 * c : 512 * c + 512]
            equalization_table(some[:256], some[256:], table[256 * c : 256 * c + 256])
        by, step = np.uint64(place[2]), np.uint64(place_out[n, 2])
        for y in range(height):
            for c in range(channels):
                at, to = np.uint64(place[0] + y * place[1] + c * place[3]), place_out[n, 0] + y * place_out[n, 1]
                first, last = np.uint64(to + c * place_out[n, 3]), _ENTRIES * np.uint64(c)
                for x in range(np.uint64(width)):
                    out[first + x * step] = table[last + np.uint64(pixels[at + x * by])]


@Compiled
def count(pixels: Array, start: int, step: int, channel: int, width: int, counts: Array) -> None:
    """Count the bytes in a row of pixels, per channel in two alternating tables.

    Args:
        pixels: uint8.
        start: Offset of the row's first element.
        step: Distance between columns.
        channel: Distance between channels.
        width: Number of pixels.
        counts: int32 (512 * channels,), for up to three channels; incremented.
    """
    # Unsigned indices: for a signed one, numba adds a test for negative values. Alternating tables keep equal neighbors
    # from waiting for the same counter.
    channels, by = counts.shape[0] // 512, np.uint64(channel)
    for x in range(np.uint64(width)):
        at, table = np.uint64(start) + x * np.uint64(step), (x & _ONE) * _ENTRIES
        counts[table + np.uint64(pixels[at])] += 1
        if channels > 1:
            counts[_TWO * _ENTRIES + table + np.uint64(pixels[at + by])] += 1
        if channels > 2:
            counts[_TWO * _TWO * _ENTRIES + table + np.uint64(pixels[at + by + by])] += 1


@Compiled
def equalization_table(counts: Array, others: Array, table: Array) -> None:
    """Compute the lookup table of a channel from its two tables of counts; the first one is overwritten."""
    first, total = 0, 0
    while counts[first] + others[first] == 0 and first < 255:
        first += 1
    counts[: first + 1] = 0  # as in OpenCV, the smallest byte is mapped to 0 and excluded from the distribution
    for value in range(first + 1, 256):
        total += counts[value] + others[value]
        counts[value] = total
    scale = np.float32(255) / np.float32(max(total, 1))
    for value in range(256):
        share = min(np.rint(np.float32(counts[value]) * scale), np.float32(255))
        table[value] = value if total == 0 else np.uint8(share)
