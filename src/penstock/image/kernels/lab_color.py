"""Conversion between uint8 RGB and CIE L*a*b*, in fixed-point arithmetic bit-for-bit as OpenCV computes it."""

from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.kernels.clip import byte
from penstock.native.compiled import Compiled, precompile

# Matrix from linear RGB to X, Y and Z (ITU-R BT.709 primaries).
_XYZ = np.array([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]])
# X, Y and Z of the white point D65.
_WHITE = np.array([0.950456, 1.0, 1.088754])

# Pixels per block: three int32 rows of this length stay in the L1 cache.
_TOGETHER = 1024

# Fractional bits of linear light, of matrix factors and of cube roots (to Lab); fixed-point 1 (from Lab). OpenCV calls
# them gamma_shift, lab_shift, lab_shift2 and BASE.
_LIGHT_BITS, _FACTOR_BITS, _ROOT_BITS, _BASE = 3, 12, 15, 1 << 14


def _linear(values: Array) -> Array:
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def _curved(values: Array) -> Array:
    return np.where(values <= 0.0031308, values * 12.92, 1.055 * values ** (1 / 2.4) - 0.055)


def _root(values: Array) -> Array:
    # NumPy's float32 cube roots depend on the CPU's vector instructions.
    roots = np.cbrt(values.astype(np.float64)).astype(np.float32)
    return np.where(values < 0.008856, values * 7.787 + 16 / 116, roots)


def _whole(values: Array) -> Array:
    return np.rint(values).astype(np.int32)


_LIGHT = _whole(255 * (1 << _LIGHT_BITS) * _linear(np.arange(256) / 255))
_ROOTS = _whole(np.float32(1 << _ROOT_BITS) * _root(np.arange(3072, dtype=np.float32) / np.float32(255 << _LIGHT_BITS)))
# OpenCV computes this table in float32, where these two roots fall just below the half at which they would round up.
_ROOTS[[324, 2079]] -= 1
_TO_XYZ = _whole((1 << _FACTOR_BITS) * _XYZ / _WHITE[:, None])

# The piecewise definitions below are CIE's: linear for dark colors (lightness up to 8), a cube otherwise.
_LIGHTNESS = np.arange(256) * 100 / 255
_Y = np.where(_LIGHTNESS <= 8, _LIGHTNESS / 903.3, ((_LIGHTNESS + 16) / 116) ** 3)
_Y_OF = _whole(_BASE * _Y)
_Y_ROOT_OF = _whole(_BASE * np.where(_LIGHTNESS <= 8, 7.787 * _Y + 16 / 116, (_LIGHTNESS + 16) / 116))
_LEAST = -8145
_CUBE_AT = np.arange(_LEAST, _LEAST + _BASE * 9 // 4)
_CUBES = np.where(
    _CUBE_AT <= _BASE * 6 // 29,
    # C division truncates toward zero, unlike `//`; the numerators may be negative.
    np.trunc(_CUBE_AT * 108 / 841) - _BASE * 16 // 116 * 108 // 841,
    _CUBE_AT * _CUBE_AT // _BASE * _CUBE_AT // _BASE,
).astype(np.int32)
_FROM_XYZ = _whole((1 << _FACTOR_BITS) * np.linalg.inv(_XYZ) * _WHITE)
_RED_LEAST = 128 * _BASE // 500 + _LEAST
# Offsets of the table of cubes that include the 128 that is added to a and b in bytes.
_BLUE_LEAST = 1 - 128 * _BASE // 200 + _LEAST
_DARK = (16 * 255 * (1 << _ROOT_BITS) + 50) // 100
_CURVE = np.rint(255 * _curved(np.arange(4096) / 4096)).astype(np.uint8)


def _scaled(values: Any, bits: int) -> Any:
    """Drop `bits` fractional bits, rounding to the nearest integer."""
    return (values + (1 << (bits - 1))) >> bits


def to_lab(xp: Any, pixels: Any) -> Any:
    """Convert RGB to Lab.

    Args:
        xp: The array namespace.
        pixels: uint8 (..., 3), RGB.

    Returns:
        uint8 (..., 3): L* times 2.55, a* plus 128, b* plus 128.
    """
    if xp is np:
        result = np.empty(pixels.shape, np.uint8)
        memory = np.empty((3, _TOGETHER), np.int32)
        lab_of(np.ascontiguousarray(pixels).reshape(-1), _LIGHT, _ROOTS, _TO_XYZ, memory, result.reshape(-1))
        return result
    light = xp.asarray(_LIGHT)[pixels.astype(np.int32)]
    x, y, z = (
        xp.asarray(_ROOTS)[_scaled(sum(light[..., c] * row[c] for c in range(3)), _FACTOR_BITS)] for row in _TO_XYZ
    )
    values = [
        _scaled(296 * y - _DARK, _ROOT_BITS),
        _scaled(500 * (x - y), _ROOT_BITS) + 128,
        _scaled(200 * (y - z), _ROOT_BITS) + 128,
    ]
    return xp.clip(xp.stack(values, axis=-1), 0, 255).astype(np.uint8)


def from_lab(xp: Any, lab: Any) -> Any:
    """Convert Lab to RGB, the inverse of `to_lab`.

    Args:
        xp: The array namespace.
        lab: uint8 (..., 3).

    Returns:
        uint8 (..., 3), RGB.
    """
    if xp is np:
        result = np.empty(lab.shape, np.uint8)
        tables = _Y_OF, _Y_ROOT_OF, _CUBES, _FROM_XYZ, _CURVE
        memory = np.empty((3, _TOGETHER), np.int32)
        rgb_of(np.ascontiguousarray(lab).reshape(-1), *tables, memory, result.reshape(-1))
        return result
    lightness, red, blue = (lab[..., at].astype(np.int32) for at in range(3))
    root, cubes = xp.asarray(_Y_ROOT_OF)[lightness], xp.asarray(_CUBES)
    # Division by 500 and by 200 as OpenCV approximates it: multiplication by a fixed-point reciprocal and a shift.
    x = cubes[root + ((5 * red * 53687 + (1 << 7)) >> 13) - _RED_LEAST]
    z = cubes[root - ((blue * 41943 + (1 << 4)) >> 9) - _BLUE_LEAST]
    y = xp.asarray(_Y_OF)[lightness]
    light = xp.stack([_scaled(x * row[0] + y * row[1] + z * row[2], 14) for row in _FROM_XYZ], axis=-1)
    return xp.asarray(_CURVE)[xp.clip(light, 0, len(_CURVE) - 1)]


@Compiled
def mixed(a: Any, b: Any, c: Any, by_a: Any, by_b: Any, by_c: Any, rounding: Any) -> Any:
    """Return a sum of products in 32 bits, so that a vector register holds more of them."""
    # numba promotes int32 arithmetic to int64; each intermediate result is converted back.
    return np.int32(np.int32(np.int32(a * by_a) + np.int32(b * by_b)) + np.int32(np.int32(c * by_c) + rounding))


@precompile("u1[1] i4[1] i4[1] i4[2] i4[2] u1[1]")
@Compiled
def lab_of(pixels: Array, light: Array, roots: Array, factors: Array, memory: Array, out: Array) -> None:
    """Compute `to_lab` on the host.

    Table lookups are scalar and arithmetic is vectorized, so each has its own loop over a block of pixels.

    Args:
        pixels: uint8, three per pixel.
        light: int32 (256,), linear light.
        roots: int32, cube roots.
        factors: int32 (3, 3), matrix to X, Y and Z.
        memory: int32 (3, n), for a block of n pixels; overwritten.
        out: uint8, same length as `pixels`.
    """
    half, one, two, three = np.int32(1 << (_ROOT_BITS - 1)), np.uint64(1), np.uint64(2), np.uint64(3)
    dark, middle, round_factors = np.int32(half - _DARK), np.int32(128), np.int32(1 << (_FACTOR_BITS - 1))
    (a, b, c), (d, e, f), (g, h, i) = factors[0], factors[1], factors[2]
    xs, ys, zs = memory[0], memory[1], memory[2]
    for start in range(0, pixels.shape[0] // 3, memory.shape[1]):
        count = np.uint64(min(memory.shape[1], pixels.shape[0] // 3 - start))
        first = np.uint64(3 * start)
        for n in range(count):
            at = first + three * n
            xs[n], ys[n], zs[n] = light[pixels[at]], light[pixels[at + one]], light[pixels[at + two]]
        for n in range(count):
            red, green, blue = xs[n], ys[n], zs[n]
            xs[n] = np.int32(mixed(red, green, blue, a, b, c, round_factors) >> _FACTOR_BITS)
            ys[n] = np.int32(mixed(red, green, blue, d, e, f, round_factors) >> _FACTOR_BITS)
            zs[n] = np.int32(mixed(red, green, blue, g, h, i, round_factors) >> _FACTOR_BITS)
        for n in range(count):  # unsigned indices: numba would test signed ones for negative values
            xs[n], ys[n], zs[n] = roots[np.uint32(xs[n])], roots[np.uint32(ys[n])], roots[np.uint32(zs[n])]
        for n in range(count):
            x, y, z, to = xs[n], ys[n], zs[n], first + three * n
            red_green, yellow_blue = np.int32(x - y) * np.int32(500), np.int32(y - z) * np.int32(200)
            out[to] = byte(np.int32(np.int32(np.int32(296) * y) + dark) >> _ROOT_BITS)
            out[to + one] = byte(np.int32(np.int32(np.int32(red_green) + half) >> _ROOT_BITS) + middle)
            out[to + two] = byte(np.int32(np.int32(np.int32(yellow_blue) + half) >> _ROOT_BITS) + middle)


@precompile("u1[1] i4[1] i4[1] i4[1] i4[2] u1[1] i4[2] u1[1]")
@Compiled
def rgb_of(
    lab: Array, y_of: Array, roots: Array, cubes: Array, factors: Array, curve: Array, memory: Array, out: Array
) -> None:
    """Compute `from_lab` on the host, with separate loops for lookups and arithmetic as in `lab_of`.

    Args:
        lab: uint8, three per pixel.
        y_of: int32 (256,), Y of each lightness.
        roots: int32 (256,), its cube root.
        cubes: int32, third powers.
        factors: int32 (3, 3), matrix from X, Y and Z.
        curve: uint8, gamma-encoded bytes of linear light.
        memory: int32 (3, n), for a block of n pixels; overwritten.
        out: uint8, same length as `lab`.
    """
    last, none, half = np.int32(curve.shape[0] - 1), np.int32(0), np.int32(8192)
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    (a, b, c), (d, e, f), (g, h, i) = factors[0], factors[1], factors[2]
    xs, ys, zs = memory[0], memory[1], memory[2]
    for start in range(0, lab.shape[0] // 3, memory.shape[1]):
        count = np.uint64(min(memory.shape[1], lab.shape[0] // 3 - start))
        first = np.uint64(3 * start)
        for n in range(count):
            at = first + three * n
            light, root = lab[at], np.int64(roots[lab[at]])
            ys[n] = y_of[light]
            xs[n] = cubes[np.uint64(root + ((5 * np.int64(lab[at + one]) * 53687 + 128) >> 13) - _RED_LEAST)]
            zs[n] = cubes[np.uint64(root - ((np.int64(lab[at + two]) * 41943 + 16) >> 9) - _BLUE_LEAST)]
        for n in range(count):
            x, y, z = xs[n], ys[n], zs[n]
            xs[n] = min(max(np.int32(mixed(x, y, z, a, b, c, half) >> 14), none), last)
            ys[n] = min(max(np.int32(mixed(x, y, z, d, e, f, half) >> 14), none), last)
            zs[n] = min(max(np.int32(mixed(x, y, z, g, h, i, half) >> 14), none), last)
        for n in range(count):
            to = first + three * n
            out[to], out[to + one] = curve[np.uint32(xs[n])], curve[np.uint32(ys[n])]
            out[to + two] = curve[np.uint32(zs[n])]
