"""Other channels: each is a weighted sum of the image's channels, plus a number."""
# pyright: basic
# JAX is typed in part only

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array
from penstock.image.describe.custom_pass import InPlacePass, Planes, as_planes, from_planes
from penstock.native.compiled import Compiled, precompile

if TYPE_CHECKING:
    from penstock.image.kernels.strided_images import StridedImages


@dataclass(frozen=True)
class ChannelMixPass(InPlacePass):
    """Bytes with another number of channels. Where the number stays, `ColorMatrixStep` fuses.

    Args:
        layout: of the images, with C.
        factors: per channel of the result its factor for each present channel, and what is added at last.
    """

    layout: str
    factors: tuple[tuple[float, ...], ...]

    def run_host(
        self,
        source: StridedImages,
        given: NDArray[np.int64],
        terms: Sequence[Any],
        target: StridedImages,
        made: NDArray[np.int64],
    ) -> None:
        """All planes in one call."""
        planes = Planes.of(self.layout, source, given, target, made)
        factors = np.array(self.factors, np.float32)
        blend_channels(source.values, planes.read, planes.given, factors, target.values, planes.write)

    def trace_xla(self, images: Any, given: Any, terms: Sequence[Any], made: Any, shape: tuple[int, ...]) -> Any:
        """A sum for each channel."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        values = as_planes(images, self.layout).astype(np.float32)
        channels: list[Any] = []
        for *factors, shift in self.factors:
            total: Any = np.float32(shift)
            for at, factor in enumerate(factors):
                total = total + values[..., at] * np.float32(factor)
            channels.append(total)
        return from_planes(jnp.stack(channels, axis=-1), self.layout, shape)


@precompile("u1[1] i8[2] i8[2] f4[2] u1[1] i8[2]")
@Compiled
def blend_channels(pixels: Array, place_in: Array, sizes: Array, factors: Array, out: Array, place_out: Array) -> None:
    """Planes of bytes with other channels.

    Args:
        pixels: uint8.
        place_in: int64 (planes, 4): the first element, and the distances to the next row, column and channel.
        sizes: int64 (planes, 3): height, width, channels.
        factors: float32 (channels of the result, present channels + 1): factors, and what is added.
        out: uint8.
        place_out: as `place_in`.
    """
    last = factors.shape[1] - 1
    for n in range(place_in.shape[0]):
        for y in range(sizes[n, 0]):
            at, to = place_in[n, 0] + y * place_in[n, 1], place_out[n, 0] + y * place_out[n, 1]
            for x in range(sizes[n, 1]):
                for c in range(factors.shape[0]):
                    total = factors[c, last] + np.float32(0.5)
                    for k in range(last):
                        total += np.float32(pixels[at + x * place_in[n, 2] + k * place_in[n, 3]]) * factors[c, k]
                    value = np.int32(min(max(total, np.float32(0)), np.float32(255)))
                    out[to + x * place_out[n, 2] + c * place_out[n, 3]] = value
