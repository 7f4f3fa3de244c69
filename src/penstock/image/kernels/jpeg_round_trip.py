"""JPEG compression artifacts without encoding: the quantization of an encoder and a decoder, without entropy coding.

The arithmetic is that of libjpeg with its accurate integer transform ("islow"), chroma subsampled 2x2, and "fancy"
upsampling. All of it is integer arithmetic, so the pixels are bit-for-bit the same as after a real round trip.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.image.kernels.clip import byte
from penstock.native.compiled import Compiled, precompile

# Quantization tables at quality 50 (ITU-T T.81, annex K, tables K.1 and K.2). Rows are vertical frequencies.
_LUMA = (
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip
_CHROMA = (
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99, *[99] * 32,
)  # fmt: skip


_QUALITY = np.arange(1, 101)[:, None, None]
_SCALE = np.where(_QUALITY < 50, 5000 // _QUALITY, 200 - 2 * _QUALITY)
# The tables for each quality from 1 to 100, scaled as libjpeg's jpeg_quality_scaling and jpeg_add_quant_table do.
# Baseline JPEG limits entries to 255.
_STEPS = np.clip((np.array([_LUMA, _CHROMA]) * _SCALE + 50) // 100, 1, 255).astype(np.int32).reshape(-1, 2, 8, 8)

# Fixed-point precision of the cosine factors (libjpeg's CONST_BITS).
_BITS = 13

_ONE, _THREE, _HALF = np.uint64(1), np.uint64(3), np.float32(0.5)


def jpeg_round_trip(images: Array, quality: NDArray[np.int32], out: Array) -> None:
    """Apply the loss of JPEG compression to images.

    Args:
        images: uint8 (images, height, width, 3), C-contiguous, RGB, not empty.
        quality: int32 (images,), C-contiguous, from 1 to 100.
        out: Shape and dtype of `images`; receives the result.
    """
    count, height, width, _ = images.shape
    # Chroma has half the resolution, and its planes consist of whole 8x8 blocks.
    tall, wide = 8 * -(-height // 16), 8 * -(-width // 16)
    luma, chroma = np.empty((2 * tall, 2 * wide), np.uint8), np.empty((tall, 2 * wide), np.uint8)
    lines, strips = np.empty((4, 2 * wide + 2), np.int32), np.empty((3, 8, 2 * wide), np.int32)
    shares, flat = np.empty((8, 2 * wide), np.float32), (count, height, 3 * width)
    round_trip(images.reshape(flat), quality, _STEPS, luma, chroma, lines, strips, shares, out.reshape(flat))


@precompile("u1[3] i4[1] i4[4] u1[2] u1[2] i4[2] i4[3] f4[2] u1[3]")
@Compiled
def round_trip(
    images: Array,
    quality: Array,
    steps: Array,
    luma: Array,
    chroma: Array,
    lines: Array,
    strips: Array,
    shares: Array,
    out: Array,
) -> None:
    """Apply the loss of JPEG compression to images, one after the other.

    Args:
        images: uint8 (images, height, 3 * width).
        quality: int32 (images,), from 1 on.
        steps: int32 (qualities, 2, 8, 8), quantization tables of luma and chroma.
        luma: uint8, size of the images rounded up to multiples of 16; overwritten.
        chroma: uint8, half as high; overwritten. Cb is in the left half, Cr in the right one.
        lines: int32 (4, width of `luma` + 2); overwritten.
        strips: int32 (3, 8, width of `luma`); overwritten.
        shares: float32 (8, width of `luma`); overwritten.
        out: Shape and dtype of `images`.
    """
    for n in range(images.shape[0]):
        table = steps[quality[n] - 1]
        split_planes(images[n], luma, chroma, lines)
        tile(table[0], strips[2], shares)
        quantize(luma, strips[2], shares, strips[0], strips[1])
        tile(table[1], strips[2], shares)
        quantize(chroma, strips[2], shares, strips[0], strips[1])
        join(luma, chroma, lines, out[n])


@Compiled
def split_planes(image: Array, luma: Array, chroma: Array, lines: Array) -> None:
    """Convert RGB to luma and subsampled chroma. Edge pixels are repeated up to the padded size."""
    height, width = image.shape[0], image.shape[1] // 3
    rows, half = (height + 1) // 2, chroma.shape[1] // 2
    for y in range(2 * rows):
        row, bright = image[min(y, height - 1)], luma[y]
        blue, red = lines[y % 2 * 2], lines[y % 2 * 2 + 1]
        for x in range(np.uint64(width)):
            at = _THREE * x
            r, g, b = np.int32(row[at]), np.int32(row[at + _ONE]), np.int32(row[at + _ONE + _ONE])
            # Fixed-point factors with 16 fractional bits, as in libjpeg's jccolor.c: 19595 is 0.299 * 65536. 8421375 is
            # 128 * 65536 + 32767, which centers chroma and rounds it.
            bright[x] = np.int32(19595 * r + 38470 * g + 7471 * b + 32768) >> 16
            blue[x] = np.int32(-11059 * r - 21709 * g + 32768 * b + 8421375) >> 16
            red[x] = np.int32(32768 * r - 27439 * g - 5329 * b + 8421375) >> 16
        bright[width:], blue[width:], red[width:] = bright[width - 1], blue[width - 1], red[width - 1]
        if y % 2:
            for c in range(2):
                above, below, chroma_row = lines[c], lines[2 + c], chroma[y // 2, c * half : c * half + half]
                # libjpeg's h2v2_downsample alternates the rounding bias, 1 and 2, so that halves do not drift upwards.
                for x in range(half):
                    total = above[2 * x] + above[2 * x + 1] + below[2 * x] + below[2 * x + 1]
                    chroma_row[x] = np.int32(total + 1 + x % 2) >> 2
    repeat_last_row(luma, height)
    repeat_last_row(chroma, rows)


@Compiled
def repeat_last_row(plane: Array, rows: int) -> None:
    """Repeat row `rows - 1` to the end of a plane."""
    for y in range(rows, plane.shape[0]):
        for x in range(plane.shape[1]):
            plane[y, x] = plane[rows - 1, x]


@Compiled
def tile(table: Array, steps: Array, shares: Array) -> None:
    """Repeat a quantization table along a strip, and compute the reciprocals of its steps divided by 8."""
    for start in range(0, steps.shape[1], 8):
        for v in range(8):
            for u in range(8):
                steps[v, start + u] = table[v, u]
                # The transform yields coefficients times 8, as libjpeg's does.
                shares[v, start + u] = np.float32(0.125) / np.float32(table[v, u])


@Compiled
def quantize(plane: Array, steps: Array, shares: Array, first: Array, second: Array) -> None:
    """Round the coefficients of a plane's 8x8 blocks to multiples of the quantization steps.

    Args:
        plane: uint8; receives the decoded pixels.
        steps: int32 (8, at least the plane's width), steps of each block.
        shares: float32, same shape, reciprocals of the steps divided by 8.
        first: int32, same shape; overwritten.
        second: int32, same shape; overwritten.
    """
    height, width = plane.shape
    for top in range(0, height, 8):
        for start in range(0, width, 8):
            for y in range(8):
                for x in range(8):
                    # Samples are centered around 0 (the level shift of ITU-T T.81, A.3.1). The blocks of a strip are
                    # transposed so that the transform runs along the contiguous axis and vectorizes.
                    first[x, start + y] = np.int32(plane[top + y, start + x]) - 128
        # The first pass keeps two fractional bits (libjpeg's PASS1_BITS); the second one removes them.
        forward(first, _BITS - 2, second, width)
        transpose_blocks(second, first, width)
        forward(first, _BITS + 2, second, width)
        for v in range(8):
            row, step, share, quantized = second[v], steps[v], shares[v], first[v]
            for x in range(width):
                value = np.float32(row[x])
                # libjpeg divides integers and rounds halves away from zero. Coefficients are integers, so adding half
                # of one decides ties the same way and exceeds the error of the float reciprocal.
                count = np.floor((abs(value) + _HALF) * share[x] + _HALF)
                quantized[x] = np.int32(np.copysign(count, value)) * step[x]
        inverse(first, _BITS - 2, second, width)
        transpose_blocks(second, first, width)
        # Removes the two fractional bits and the factor 8 of the transform.
        inverse(first, _BITS + 5, second, width)
        for x in range(8):
            row = second[x]
            for y in range(width):
                row[y] = min(max(np.int32(row[y] + 128), np.int32(0)), np.int32(255))
        for start in range(0, width, 8):
            for y in range(8):
                for x in range(8):
                    plane[top + y, start + x] = second[x, start + y]


@Compiled
def transpose_blocks(source: Array, out: Array, width: int) -> None:
    """Transpose each 8x8 block of a strip."""
    for start in range(0, width, 8):
        for y in range(8):
            for x in range(8):
                out[x, start + y] = source[y, start + x]


@Compiled
def forward(source: Array, bits: int, out: Array, width: int) -> None:
    """Apply the 8-point cosine transform to columns, divide by 2 to the power of `bits`, and round.

    The factors are cosines times 8192, computed from the constants of libjpeg's jfdctint.c. Their sums are not always
    the nearest integer to the exact factor.
    """
    half = np.int32(1 << (bits - 1))
    for x in range(width):
        a, b, c, d = source[0, x], source[1, x], source[2, x], source[3, x]
        # Even and odd parts: sums and differences of mirrored samples halve the number of products.
        e, f, g, h = source[7, x], source[6, x], source[5, x], source[4, x]
        s, t, u, v = np.int32(a + e), np.int32(b + f), np.int32(c + g), np.int32(d + h)
        a, b, c, d = np.int32(a - e), np.int32(b - f), np.int32(c - g), np.int32(d - h)
        e, f, g, h = np.int32(s + v), np.int32(t + u), np.int32(s - v), np.int32(t - u)
        out[0, x] = np.int32(8192 * (e + f) + half) >> bits
        out[1, x] = np.int32(11363 * a + 9633 * b + 6437 * c + 2260 * d + half) >> bits
        out[2, x] = np.int32(10703 * g + 4433 * h + half) >> bits
        out[3, x] = np.int32(9633 * a - 2259 * b - 11362 * c - 6436 * d + half) >> bits
        out[4, x] = np.int32(8192 * (e - f) + half) >> bits
        out[5, x] = np.int32(6437 * a - 11362 * b + 2261 * c + 9633 * d + half) >> bits
        out[6, x] = np.int32(4433 * g - 10704 * h + half) >> bits
        out[7, x] = np.int32(2260 * a - 6436 * b + 9633 * c - 11363 * d + half) >> bits


@Compiled
def inverse(source: Array, bits: int, out: Array, width: int) -> None:
    """Apply the inverse of `forward`, with the same factors."""
    half = np.int32(1 << (bits - 1))
    for x in range(width):
        a, b, c, d = source[0, x], source[2, x], source[4, x], source[6, x]
        e, f, g, h = source[1, x], source[3, x], source[5, x], source[7, x]
        s, t = np.int32(8192 * (a + c) + half), np.int32(8192 * (a - c) + half)
        u, v = np.int32(10703 * b + 4433 * d), np.int32(4433 * b - 10704 * d)
        a, b, c, d = np.int32(s + u), np.int32(t + v), np.int32(t - v), np.int32(s - u)
        s = np.int32(11363 * e + 9633 * f + 6437 * g + 2260 * h)
        t = np.int32(9633 * e - 2259 * f - 11362 * g - 6436 * h)
        u = np.int32(6437 * e - 11362 * f + 2261 * g + 9633 * h)
        v = np.int32(2260 * e - 6436 * f + 9633 * g - 11363 * h)
        out[0, x], out[7, x] = np.int32(a + s) >> bits, np.int32(a - s) >> bits
        out[1, x], out[6, x] = np.int32(b + t) >> bits, np.int32(b - t) >> bits
        out[2, x], out[5, x] = np.int32(c + u) >> bits, np.int32(c - u) >> bits
        out[3, x], out[4, x] = np.int32(d + v) >> bits, np.int32(d - v) >> bits


@Compiled
def join(luma: Array, chroma: Array, lines: Array, image: Array) -> None:
    """Convert luma and upsampled chroma to RGB.

    Upsampling is libjpeg's "fancy" triangle filter: 3/4 of the nearest sample and 1/4 of the next one along each axis.
    """
    height, width = image.shape[0], image.shape[1] // 3
    rows, columns, half = (height + 1) // 2, (width + 1) // 2, chroma.shape[1] // 2
    for y in range(height):
        nearest = y // 2
        beside = min(max(nearest - 1 + y % 2 * 2, 0), rows - 1)
        for c in range(2):
            near, far = chroma[nearest, c * half :], chroma[beside, c * half :]
            mixed, upsampled = lines[2 + c], lines[c]
            if columns > 2:
                for x in range(columns):
                    mixed[x + 1] = np.int32(np.int32(3) * near[x] + far[x])
                mixed[0], mixed[columns + 1] = mixed[1], mixed[columns]
                for x in range(columns):
                    # The biases 8 and 7 alternate the rounding of halves, as in libjpeg's h2v2_fancy_upsample.
                    upsampled[2 * x] = np.int32(3 * mixed[x + 1] + mixed[x] + 8) >> 4
                    upsampled[2 * x + 1] = np.int32(3 * mixed[x + 1] + mixed[x + 2] + 7) >> 4
            else:  # libjpeg does not interpolate images this narrow
                for x in range(width):
                    upsampled[x] = near[x // 2]
        row, bright, blue, red = image[y], luma[y], lines[0], lines[1]
        for x in range(np.uint64(width)):
            light, b, r = np.int32(bright[x]), np.int32(blue[x] - 128), np.int32(red[x] - 128)
            at = _THREE * x
            # Fixed-point factors with 16 fractional bits, as in libjpeg's jdcolor.c: 91881 is 1.402 * 65536.
            row[at] = byte(light + (np.int32(91881 * r + 32768) >> 16))
            row[at + _ONE] = byte(light + (np.int32(32768 - 22554 * b - 46802 * r) >> 16))
            row[at + _ONE + _ONE] = byte(light + (np.int32(116130 * b + 32768) >> 16))
