"""Histogram equalisation of bytes."""
# pyright: basic
# JAX is typed in part only

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.data.source import Array
from penstock.native.compiled import Compiled, ahead
from penstock.operators.image.transform import InPlace, Planes, as_planes, from_planes

if TYPE_CHECKING:
    from penstock.operators.image.memory import Memory


@dataclass(frozen=True)
class Equalize(InPlace):
    """Each channel's bytes by a table that spreads them evenly, as OpenCV does.

    The least byte that occurs becomes 0, the greatest 255; between them a byte goes where the share of those that are
    not greater says. A channel of one value stays.

    Args:
        layout: of the images.
    """

    layout: str

    def rows(
        self, source: Memory, given: NDArray[np.int64], terms: Sequence[Any], target: Memory, made: NDArray[np.int64]
    ) -> None:
        """All planes in one call."""
        planes = Planes.of(self.layout, source, given, target, made)
        table = np.empty(512, np.int64), np.empty(256, np.uint8)
        equalize(source.values, planes.read, planes.given, target.values, planes.write, *table)

    def trace(self, images: Any, given: Any, terms: Sequence[Any], made: Any, shape: tuple[int, ...]) -> Any:
        """Counted by adding ones at the places of bytes."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        values = as_planes(images, self.layout)
        rows, planes, height, width, channels = values.shape
        index = values.transpose(0, 1, 4, 2, 3).reshape(rows * planes * channels, height * width).astype(np.int32)
        inside = jnp.ones((1, 1, 1, height, width), bool)
        for axis, letter in enumerate("HW"):
            at = jnp.arange(values.shape[2 + axis]).reshape((1, 1, 1, -1, 1) if axis == 0 else (1, 1, 1, 1, -1))
            inside = inside & (at < given[:, self.layout.index(letter)].reshape(-1, 1, 1, 1, 1))
        ones = jnp.broadcast_to(inside, (rows, planes, channels, height, width)).reshape(index.shape)
        number = jnp.arange(len(index))[:, None]
        counts = jnp.zeros((len(index), 256), np.int32).at[number, index].add(ones.astype(np.int32))
        total, sums = counts.sum(axis=1, keepdims=True), jnp.cumsum(counts, axis=1)
        first = jnp.take_along_axis(counts, jnp.argmax(counts > 0, axis=1)[:, None], axis=1)
        scale = np.float32(255) / jnp.maximum(total - first, 1).astype(np.float32)
        table = jnp.clip(jnp.rint((sums - first).astype(np.float32) * scale), 0, 255)
        table = jnp.where(first == total, jnp.arange(256, dtype=np.float32)[None, :], table)
        found = jnp.take_along_axis(table, index, axis=1).reshape(rows, planes, channels, height, width)
        return from_planes(found.transpose(0, 1, 3, 4, 2), self.layout, shape)


@ahead("u1[1] i8[2] i8[2] u1[1] i8[2] i8[1] u1[1]")
@Compiled
def equalize(
    pixels: Array, place_in: Array, sizes: Array, out: Array, place_out: Array, counts: Array, table: Array
) -> None:
    """Planes of bytes, each channel by a table of its own.

    Args:
        pixels: uint8.
        place_in: int64 (planes, 4): the first element, and the distances to the next row, column and channel.
        sizes: int64 (planes, 3): height, width, channels.
        out: uint8.
        place_out: as `place_in`.
        counts: int64 (512,); overwritten.
        table: uint8 (256,); overwritten.
    """
    for n in range(place_in.shape[0]):
        height, width = sizes[n, 0], sizes[n, 1]
        for c in range(sizes[n, 2]):
            for value in range(512):
                counts[value] = 0
            for y in range(height):
                at = place_in[n, 0] + c * place_in[n, 3] + y * place_in[n, 1]
                for x in range(width):  # indices are unsigned: for a signed one, numba asks where it counts from
                    counts[
                        np.uint64(x & 1) << np.uint64(8) | np.uint64(pixels[np.uint64(at + x * place_in[n, 2])])
                    ] += 1
            for value in range(256):  # counted in turns, since equal neighbours would wait for each other
                counts[value] += counts[256 + value]
            first = 0
            while first < 255 and counts[first] == 0:
                first += 1
            rest = height * width - counts[first]
            scale = np.float32(255) / np.float32(max(rest, 1))
            total = 0
            for value in range(256):
                if value > first:
                    total += counts[value]
                exact = np.float32(total) * scale
                whole = math.floor(exact)
                part = exact - np.float32(whole)  # halves go to the even neighbour
                up = part > np.float32(0.5) or (part == np.float32(0.5) and whole % 2 == 1)
                table[value] = value if rest == 0 else min(whole + (1 if up else 0), 255)
            for y in range(height):
                at = place_in[n, 0] + c * place_in[n, 3] + y * place_in[n, 1]
                to = place_out[n, 0] + c * place_out[n, 3] + y * place_out[n, 1]
                for x in range(width):
                    value = table[np.uint64(pixels[np.uint64(at + x * place_in[n, 2])])]
                    out[np.uint64(to + x * place_out[n, 2])] = value
