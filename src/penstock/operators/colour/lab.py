"""Bytes of RGB as lightness and two colours (CIE L*a*b*), and back, in whole numbers as OpenCV computes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.data.source import Array
from penstock.native.compiled import Compiled, ahead

_XYZ = np.array([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]])
"""From linear RGB to X, Y and Z (ITU-R BT.709)."""
_WHITE = np.array([0.950456, 1.0, 1.088754])
"""X, Y and Z of white (D65)."""

_LIGHT_BITS, _FACTOR_BITS, _ROOT_BITS, _BASE = 3, 12, 15, 1 << 14
"""Bits after the point: of linear light, of factors, of cube roots on the way to Lab; and what is 1 on the way back."""


def _linear(values: Array) -> Array:
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def _curved(values: Array) -> Array:
    return np.where(values <= 0.0031308, values * 12.92, 1.055 * values ** (1 / 2.4) - 0.055)


def _root(values: Array) -> Array:
    return np.where(values < 0.008856, values * 7.787 + 16 / 116, np.cbrt(values))


def _whole(values: Array) -> Array:
    return np.rint(values).astype(np.int32)


_LIGHT = _whole(255 * (1 << _LIGHT_BITS) * _linear(np.arange(256) / 255))
_ROOTS = _whole(np.float32(1 << _ROOT_BITS) * _root(np.arange(3072, dtype=np.float32) / np.float32(255 << _LIGHT_BITS)))
"""In float32, as there: two of them are next to half a number."""
_TO_XYZ = _whole((1 << _FACTOR_BITS) * _XYZ / _WHITE[:, None])

_LIGHTNESS = np.arange(256) * 100 / 255
_Y = np.where(_LIGHTNESS <= 8, _LIGHTNESS / 903.3, ((_LIGHTNESS + 16) / 116) ** 3)
_Y_OF = _whole(_BASE * _Y)
_Y_ROOT_OF = _whole(_BASE * np.where(_LIGHTNESS <= 8, 7.787 * _Y + 16 / 116, (_LIGHTNESS + 16) / 116))
_LEAST = -8145
_CUBE_AT = np.arange(_LEAST, _LEAST + _BASE * 9 // 4)
_CUBES = np.where(
    _CUBE_AT <= _BASE * 6 // 29,
    np.trunc(_CUBE_AT * 108 / 841) - _BASE * 16 // 116 * 108 // 841,  # towards zero: they are negative, too
    _CUBE_AT * _CUBE_AT // _BASE * _CUBE_AT // _BASE,
).astype(np.int32)
_FROM_XYZ = _whole((1 << _FACTOR_BITS) * np.linalg.inv(_XYZ) * _WHITE)
_RED_LEAST = 128 * _BASE // 500 + _LEAST
_BLUE_LEAST = 1 - 128 * _BASE // 200 + _LEAST
"""Where the tables begin, with the 128 of the two colours."""
_DARK = (16 * 255 * (1 << _ROOT_BITS) + 50) // 100
_CURVE = np.rint(255 * _curved(np.arange(4096) / 4096)).astype(np.uint8)


def _scaled(values: Any, bits: int) -> Any:
    """Whole numbers without so many of their bits after the point, rounded."""
    return (values + (1 << (bits - 1))) >> bits


def to_lab(xp: Any, pixels: Any) -> Any:
    """RGB as Lab.

    Args:
        xp: the array namespace.
        pixels: uint8 (..., 3).

    Returns:
        uint8 (..., 3): lightness times 2.55, and the two colours plus 128.
    """
    if xp is np:
        result = np.empty(pixels.shape, np.uint8)
        lab_of(np.ascontiguousarray(pixels).reshape(-1, 3), _LIGHT, _ROOTS, _TO_XYZ, result.reshape(-1, 3))
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
    """The inverse.

    Args:
        xp: the array namespace.
        lab: uint8 (..., 3).

    Returns:
        uint8 (..., 3).
    """
    if xp is np:
        result = np.empty(lab.shape, np.uint8)
        tables = _Y_OF, _Y_ROOT_OF, _CUBES, _FROM_XYZ, _CURVE
        rgb_of(np.ascontiguousarray(lab).reshape(-1, 3), *tables, result.reshape(-1, 3))
        return result
    lightness, red, blue = (lab[..., at].astype(np.int32) for at in range(3))
    root, cubes = xp.asarray(_Y_ROOT_OF)[lightness], xp.asarray(_CUBES)
    x = cubes[root + ((5 * red * 53687 + (1 << 7)) >> 13) - _RED_LEAST]
    z = cubes[root - ((blue * 41943 + (1 << 4)) >> 9) - _BLUE_LEAST]
    y = xp.asarray(_Y_OF)[lightness]
    light = xp.stack([_scaled(x * row[0] + y * row[1] + z * row[2], 14) for row in _FROM_XYZ], axis=-1)
    return xp.asarray(_CURVE)[xp.clip(light, 0, len(_CURVE) - 1)]


@ahead("u1[2] i4[1] i4[1] i4[2] u1[2]")
@Compiled
def lab_of(pixels: Array, light: Array, roots: Array, factors: Array, out: Array) -> None:
    """`to_lab` on the host.

    Args:
        pixels: uint8 (pixels, 3).
        light: int32 (256,), linear light.
        roots: int32, cube roots.
        factors: int32 (3, 3), to X, Y and Z.
        out: uint8 (pixels, 3).
    """
    half = 1 << (_ROOT_BITS - 1)
    (a, b, c), (d, e, f), (g, h, i) = factors[0], factors[1], factors[2]
    for n in range(pixels.shape[0]):
        red, green, blue = light[pixels[n, 0]], light[pixels[n, 1]], light[pixels[n, 2]]
        # indices are unsigned: for a signed one, numba asks whether it counts from the end
        x = roots[np.uint64((red * a + green * b + blue * c + 2048) >> 12)]
        y = roots[np.uint64((red * d + green * e + blue * f + 2048) >> 12)]
        z = roots[np.uint64((red * g + green * h + blue * i + 2048) >> 12)]
        out[n, 0] = min(max((296 * y - _DARK + half) >> _ROOT_BITS, 0), 255)
        out[n, 1] = min(max(((500 * (x - y) + half) >> _ROOT_BITS) + 128, 0), 255)
        out[n, 2] = min(max(((200 * (y - z) + half) >> _ROOT_BITS) + 128, 0), 255)


@ahead("u1[2] i4[1] i4[1] i4[1] i4[2] u1[1] u1[2]")
@Compiled
def rgb_of(lab: Array, y_of: Array, roots: Array, cubes: Array, factors: Array, curve: Array, out: Array) -> None:
    """`from_lab` on the host.

    Args:
        lab: uint8 (pixels, 3).
        y_of: int32 (256,), Y of lightness.
        roots: int32 (256,), its cube root.
        cubes: int32, third powers.
        factors: int32 (3, 3), from X, Y and Z.
        curve: uint8, bytes of linear light.
        out: uint8 (pixels, 3).
    """
    last = curve.shape[0] - 1
    (a, b, c), (d, e, f), (g, h, i) = factors[0], factors[1], factors[2]
    for n in range(lab.shape[0]):
        y, root = np.int64(y_of[lab[n, 0]]), np.int64(roots[lab[n, 0]])
        x = np.int64(cubes[np.uint64(root + ((5 * np.int64(lab[n, 1]) * 53687 + 128) >> 13) - _RED_LEAST)])
        z = np.int64(cubes[np.uint64(root - ((np.int64(lab[n, 2]) * 41943 + 16) >> 9) - _BLUE_LEAST)])
        out[n, 0] = curve[np.uint64(min(max((x * a + y * b + z * c + 8192) >> 14, 0), last))]
        out[n, 1] = curve[np.uint64(min(max((x * d + y * e + z * f + 8192) >> 14, 0), last))]
        out[n, 2] = curve[np.uint64(min(max((x * g + y * h + z * i + 8192) >> 14, 0), last))]
