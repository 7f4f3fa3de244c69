"""Channel mixing with a different number of output channels."""
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
class ChannelMixPass(InPlacePass):
    """Weighted sums of channels that change the number of channels, for bytes.

    If the number stays the same, `ColorMatrixStep` does the work and fuses with other steps.

    Args:
        layout: Layout of the images, with C.
        factors: Per output channel, the factor of each input channel and the constant to add.
    """

    layout: str
    factors: tuple[tuple[float, ...], ...]

    def run_host(self, images: PassImages, terms: Sequence[Any]) -> None:
        """Mix all planes in one call."""
        planes = images.planes(self.layout)
        factors = np.array(self.factors, np.float32)
        blend_channels(planes.pixels, planes.read, planes.sizes_in, factors, planes.out, planes.write)

    def trace_xla(self, images: Any, shapes: Any, terms: Sequence[Any], out_shapes: Any, shape: tuple[int, ...]) -> Any:
        """Compute one sum per output channel."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        values = as_planes(images, self.layout).astype(np.float32)
        channels: list[Any] = []
        for *factors, shift in self.factors:
            # The order of the additions is that of the compiled loop.
            total: Any = np.float32(shift)
            for at, factor in enumerate(factors):
                total = total + values[..., at] * np.float32(factor)
            channels.append(total)
        return from_planes(jnp.stack(channels, axis=-1), self.layout, shape)


@precompile("u1[1] i8[2] i8[2] f4[2] u1[1] i8[2]")
@Compiled
def blend_channels(pixels: Array, place_in: Array, sizes: Array, factors: Array, out: Array, place_out: Array) -> None:
    """Mix the channels of planes of bytes.

    Args:
        pixels: uint8.
        place_in: int64 (planes, 4), offset of the first element, then the strides of rows, columns and channels.
        sizes: int64 (planes, 3), height, width, channels.
        factors: float32 (output channels, input channels + 1), factors and the constant to add.
        out: uint8.
        place_out: As `place_in`.
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
                    # Clipped before the conversion: converting a float outside of the range to an integer is undefined.
                    value = np.int32(min(max(total, np.float32(0)), np.float32(255)))
                    out[to + x * place_out[n, 2] + c * place_out[n, 3]] = value
