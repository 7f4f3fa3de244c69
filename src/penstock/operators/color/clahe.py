"""`fn.clahe`."""
# pyright: basic
# JAX is only partly typed

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, BatchKernel, DataNode, Input, Operator, Range, apply, assumed_layout, operator
from penstock.image.kernels.clahe_tiles import equalize_tiles
from penstock.image.kernels.lab_color import from_lab, to_lab
from penstock.numerics.ordered_sums import no_fma

_MAX_TILES = 1 << 16

# Number of tiles along an axis.
Tiles = Annotated[int, Range(1, 1 << 12)]


@dataclass(frozen=True)
class Clahe(Operator, BatchKernel):
    """Contrast-limited adaptive histogram equalization (Zuiderveld, 1994), with OpenCV's results.

    Args:
        tiles: Numbers of tiles along height and width.
        clip_limit: Limit of a histogram bin, as a multiple of the count of a flat histogram; 0 for no limit.
        bins: Number of histogram bins.
        luma_only: If True, only the lightness of RGB images changes; otherwise each channel.
    """

    tiles: tuple[int, int]
    clip_limit: float
    bins: int
    luma_only: bool

    def infer(self, images: Spec) -> Spec:
        """Return the spec of the images."""
        return replace(images, layout=assumed_layout(images))

    def batch(self, context: BatchContext, images: Any) -> Any:
        """Equalize the lightness of RGB images, or each channel."""
        xp, channels = context.xp, images.shape[-1]
        if channels not in (1, 3):
            raise ValueError(f"an image has {channels} channels, not 1 or 3")
        pixels = images.reshape(-1, *images.shape[-3:])
        # As in DALI, `luma_only` equalizes the lightness of CIE Lab; otherwise each channel is equalized.
        light = channels == 3 and self.luma_only
        if xp is np:
            return self._on_host(pixels, light).reshape(images.shape)
        if light:
            lab = to_lab(xp, pixels)
            result = from_lab(xp, xp.concatenate([self._on_device(lab[..., 0])[..., None], lab[..., 1:]], axis=-1))
        else:
            result = xp.stack([self._on_device(pixels[..., at]) for at in range(channels)], axis=-1)
        return result.reshape(images.shape)

    def _on_host(self, pixels: Array, light: bool) -> Array:
        """Equalize images with a compiled loop."""
        count, *size, channels = pixels.shape
        # Lab images are temporary and are changed in place.
        source = to_lab(np, pixels) if light else np.ascontiguousarray(pixels)
        result = source if light else np.empty(pixels.shape, np.uint8)
        extents = self._extents((size[0], size[1]))
        (rows, down), (columns, across) = map(_between, size, self.tiles, extents)
        tables = np.empty((self.tiles[0] * self.tiles[1], self.bins), np.float32)
        lines = count, size[0], size[1] * channels
        for channel in range(1 if light else channels):
            equalize_tiles(
                *(source.reshape(lines), channel, channels, np.array([*self.tiles, *extents]), self._limit(extents)),
                *(rows, down, columns, across, np.arange(256) * self.bins // 256),
                *(np.empty(self.bins, np.int32), tables, result.reshape(lines)),
            )
        return from_lab(np, result) if light else result

    def _on_device(self, planes: Any) -> Any:
        """Equalize uint8 planes (count, height, width) with JAX; the histograms are one scatter-add."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        count, *size = planes.shape
        values, extents = planes.astype(np.int32) * self.bins // 256, self._extents((size[0], size[1]))
        padded = values
        for axis, (tiles, extent) in enumerate(zip(self.tiles, extents, strict=True)):
            padded = jnp.take(padded, _mirrored(np.arange(tiles * extent), size[axis]), axis=axis + 1)
        tile = (np.arange(padded.shape[1]) // extents[0])[:, None] * self.tiles[1]
        tile = tile + np.arange(padded.shape[2]) // extents[1]
        number = self.tiles[0] * self.tiles[1]
        # Histograms of all tiles of all images share one flat array: image, tile, bin.
        first = (np.arange(count)[:, None, None] * number * self.bins).astype(np.int32)
        places = padded + first + (tile * self.bins).astype(np.int32)[None]
        histogram = jnp.zeros(count * number * self.bins, np.int32).at[places.reshape(-1)].add(1).reshape(-1, self.bins)
        limit = self._limit(extents)
        if limit:
            above = jnp.maximum(histogram - limit, 0).sum(axis=1, keepdims=True, dtype=np.int32)
            # OpenCV spreads the clipped pixels evenly over all bins, and the remainder over every `step`-th bin.
            rest = above % self.bins
            step = jnp.maximum(self.bins // jnp.maximum(rest, 1), 1)
            value = np.arange(self.bins, dtype=np.int32)[None]
            more = ((value % step == 0) & (value // step < rest)).astype(np.int32)
            histogram = jnp.minimum(histogram, limit) + above // self.bins + more
        scale = np.float32(255) / np.float32(extents[0] * extents[1])
        sums = jnp.cumsum(histogram, axis=1).astype(np.float32)
        tables = jnp.clip(jnp.rint(sums * scale), 0, 255).reshape(-1)
        (rows, down), (columns, across) = map(_between, size, self.tiles, extents)

        # Products are rounded before they are added (no FMA), so that host and device agree bit-for-bit.
        def interpolate_columns(row: Array) -> Any:
            begin = values + first + (row * self.tiles[1] * self.bins)[None, :, None]
            low, high = (tables[begin + (column * self.bins)[None, None]] for column in columns)
            return no_fma(jnp, low * (np.float32(1) - beside)) + no_fma(jnp, high * beside)

        beside, below = across[None, None], down[None, :, None]
        blended = no_fma(jnp, interpolate_columns(rows[0]) * (np.float32(1) - below)) + no_fma(
            jnp, interpolate_columns(rows[1]) * below
        )
        return jnp.clip(jnp.rint(blended), 0, 255).astype(np.uint8)

    def _limit(self, extents: tuple[int, int]) -> int:
        """Return the largest count of a bin in a tile; 0 for no limit."""
        return max(int(self.clip_limit * extents[0] * extents[1] / self.bins), 1) if self.clip_limit > 0 else 0

    def _extents(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return height and width of a tile.

        If tiles do not divide one of the extents, OpenCV pads both, also the one that they divide.
        """
        if all(extent % count == 0 for extent, count in zip(size, self.tiles, strict=True)):
            return size[0] // self.tiles[0], size[1] // self.tiles[1]
        return size[0] // self.tiles[0] + 1, size[1] // self.tiles[1] + 1


def _mirrored(at: Array, size: int) -> Array:
    """Return indices into an axis that is padded by reflection without repeating its last pixel."""
    period = max(2 * size - 2, 1)
    return np.minimum(at % period, period - at % period) * (size > 1)


def _between(size: int, count: int, extent: int) -> tuple[Array, Array]:
    """Return the tiles before and after each pixel of an axis, (2, size), and the weight of the latter, (size,)."""
    place = np.arange(size, dtype=np.float32) * (np.float32(1) / np.float32(extent)) - np.float32(0.5)
    first = np.floor(place).astype(np.int32)
    return np.stack([np.maximum(first, 0), np.minimum(first + 1, count - 1)]), place - first.astype(np.float32)


@operator("clahe")
def clahe(
    data: Annotated[
        DataNode,
        Input(("uint8",), layouts=("HWC", "FHWC"), channels=(1, 3), needs="grayscale or RGB images"),
    ],
    *,
    tiles_x: Tiles,
    tiles_y: Tiles,
    clip_limit: float,
    bins: Annotated[int, Range(1, 1 << 16)] = 256,
    luma_only: bool = True,
) -> DataNode:
    """Apply contrast-limited adaptive histogram equalization (CLAHE) to images.

    Each tile has its lookup table. A pixel interpolates between the tables of the four nearest tiles. Results equal
    OpenCV's.

    Args:
        data: Images or sequences, uint8, grayscale (1 channel) or RGB; layout HWC or FHWC (HWC if the input has none).
        tiles_x: Number of tiles along the width.
        tiles_y: Number of tiles along the height.
        clip_limit: Contrast limit: largest count of a histogram bin, as a multiple of the count in a flat histogram.
            0 disables the limit.
        bins: Number of histogram bins, a power of 2 up to 65536. This follows DALI's documentation; DALI's CPU operator
            always uses 256.
        luma_only: If True, equalize the lightness of RGB images (in CIE Lab); otherwise each channel separately.

    Returns:
        Images with the shape, dtype and layout of the input.

    Raises:
        DefinitionError: If the dtype is not uint8, the number of channels not 1 or 3, or `bins` not a power of 2.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[7], [7], [8], [9]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.clahe(images, tiles_x=1, tiles_y=1, clip_limit=0))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [128, 128, 191, 255]
    """
    if bins & (bins - 1):
        raise DefinitionError("bins must be a power of 2", given=bins, expected="a power of 2, such as 256")
    if tiles_x * tiles_y > _MAX_TILES:
        raise DefinitionError(
            "too many tiles", given=f"tiles_x={tiles_x}, tiles_y={tiles_y}", expected=f"up to {_MAX_TILES}"
        )
    return apply(Clahe((tiles_y, tiles_x), float(clip_limit), int(bins), bool(luma_only)), data)
