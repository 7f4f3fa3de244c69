"""Augmentations with magnitude bins, and random signs of magnitudes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from penstock import fn, types
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph import DataNode, Range, check_annotations
from penstock.numerics.permutation import hash_words

Parameters = Callable[[Any], Any]

# Number of magnitude bins.
Bins = Annotated[int, Range(1, 1 << 16)]

# Largest translation: a number or (height, width); None for the default.
Translation = float | tuple[float, float] | None

# Draws of one seed: the augmentation or sub-policy, whether it is applied, its magnitude bin and the sign.
CHOICE, APPLICATION, BIN, SIGN = range(4)

# Decorator that checks the arguments of a function which users call in a definition. Errors are those of operators.
defining = functools.partial(check_annotations, kind=ArgumentTypeError, limits=DefinitionError)


@dataclass(frozen=True)
class SignedBin:
    """Magnitude bin with a random sign per sample.

    Args:
        bin: Index of the bin, or a node with one or several indices per sample.
        sign: Node with one or several values per sample: 1 negates the magnitude, 0 does not.
    """

    bin: int | DataNode
    sign: DataNode

    def __getitem__(self, number: int) -> SignedBin:
        """Select the bin of one of several consecutive augmentations."""
        return SignedBin(self.bin if isinstance(self.bin, int) else self.bin[number], self.sign[number])

    def magnitudes(self, values: NDArray[Any]) -> tuple[NDArray[Any], int | DataNode]:
        """Return a table of positive and negative magnitudes, and the index into it for each sample."""
        # With one bin for all samples, the table has two entries. Otherwise the signs of each bin are adjacent.
        if isinstance(self.bin, int):
            return np.stack([values[self.bin], -values[self.bin]]), self.sign
        return np.stack([values, -values], axis=1).reshape(-1), self.bin * 2 + self.sign


def signed_bin(
    magnitude_bin: int | DataNode, random_sign: DataNode | None = None, seed: int | None = None, shape: Any = None
) -> SignedBin:
    """Draw a random sign per sample for the magnitude of a bin.

    Args:
        magnitude_bin: Index of the bin, or a node with one or several indices per sample.
        random_sign: Node of zeros and ones to use instead of a draw.
        seed: Seed of the draw; by default derived from the pipeline's seed.
        shape: Shape of the signs of a sample; by default a single sign.

    Returns:
        The bins with their signs. Index it to get one of several signs of a sample.
    """
    if random_sign is None:
        random_sign = fn.random.uniform(values=[0, 1], dtype=types.INT32, shape=shape, **seeded(seed, SIGN))
    return SignedBin(magnitude_bin, random_sign)


def seeded(seed: int | None, draw: int) -> dict[str, Any]:
    """Return the keyword arguments of an operator that makes one of the draws of an optional seed.

    Args:
        seed: Seed of all draws of an augmentation; None or a negative number derives it from the pipeline's seed.
        draw: Which of the draws, such as `CHOICE`.
    """
    # Operators with the same seed draw the same numbers, so each draw needs its own. Otherwise an augmentation would
    # always come with the same sign and bin.
    return {} if seed is None or seed < 0 else {"seed": hash_words(seed, draw) >> 1}  # seeds are int64


@dataclass(frozen=True, eq=False, repr=False)
class Augmentation:
    """Augmentation: a function of images and a parameter that depends on the magnitude bin.

    Args:
        op: Function of the images, the parameter, and optional further arguments by name.
        mag_range: Magnitudes of the first and the last bin, or an array with one per bin; None for an augmentation
            without magnitudes, whose parameter is None.
        randomly_negate: True negates the magnitude of a random half of the samples.
        mag_to_param: Function from a magnitude to the parameter, as an array; by default the magnitude itself.
        param_device: Ignored; accepted for compatibility with DALI.
        name: Name in policies; by default the function's name.

    Raises:
        ArgumentTypeError: `op` is already an augmentation, or does not take images and a parameter by position.
    """

    op: Callable[..., Any]
    mag_range: tuple[float, float] | NDArray[Any] | None = None
    randomly_negate: bool | None = None
    mag_to_param: Parameters | None = None
    param_device: str | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.mag_range, np.ndarray) and self.mag_range.ndim != 1:
            raise ArgumentTypeError("mag_range has a number for each bin", given=self.mag_range)
        if isinstance(self.op, Augmentation):
            raise ArgumentTypeError(
                "this is an augmentation already", given=self.op.name, fix="change it by its .augmentation(...)"
            )
        try:
            inspect.signature(self.op).bind_partial(None, None)
        except TypeError:
            raise ArgumentTypeError(
                "an augmentation takes images and a parameter",
                given=short_repr(self.op),
                expected="a function of at least two positional arguments",
            ) from None
        own = getattr(self.op, "__name__", "augmentation")
        defaults = {"name": own, "randomly_negate": False, "mag_to_param": np.asarray, "param_device": "cpu"}
        # None selects the default. The dataclass is frozen, so this bypasses its `__setattr__`.
        for name, default in defaults.items():
            value = getattr(self, name)
            object.__setattr__(self, name, default if value in (None, "") else value)

    def __repr__(self) -> str:
        return f"Augmentation({self.name})"

    def augmentation(self, *args: Any, **changed: Any) -> Augmentation:
        """Return an augmentation of the same function with other settings; None selects the default.

        Settings by position are `mag_range`, `randomly_negate`, `mag_to_param`, `param_device` and `name`.
        """
        names = ("mag_range", "randomly_negate", "mag_to_param", "param_device", "name")
        # An argument of DALI's. There is only one class of augmentations here.
        changed.pop("augmentation_cls", None)
        settings = {**dict(zip(names, args, strict=False)), **changed}
        if settings.get("name", "") is None:
            settings["name"] = ""
        return replace(self, **settings)

    @defining
    def __call__(
        self,
        data: DataNode,
        *,
        magnitude_bin: Annotated[int, Range(0)] | DataNode | SignedBin | None = None,
        num_magnitude_bins: Bins | None = None,
        **more: Any,
    ) -> DataNode:
        """Augment images.

        Args:
            data: Images or sequences, uint8 of layout HWC or FHWC.
            magnitude_bin: Index of the bin for all samples, a node with one per sample, or a `SignedBin`.
            num_magnitude_bins: Number of magnitude bins.
            more: Arguments of the function. Those that are not in its signature are ignored.

        Returns:
            The augmented images.

        Raises:
            DefinitionError: The bin is missing or out of range, or a required argument of the function is missing.
        """
        parameter = self._parameter(magnitude_bin, num_magnitude_bins)
        # The first two parameters are the images and the parameter. A policy passes the same arguments to all of its
        # augmentations, such as `fill_value`, so those that the function lacks are dropped.
        takes = list(inspect.signature(self.op).parameters.values())[2:]
        missing = [item.name for item in takes if item.default is item.empty and item.name not in more]
        if missing:
            raise DefinitionError(
                f"the augmentation {self.name} needs more arguments",
                expected=", ".join(missing),
            )
        return self.op(data, parameter, **{item.name: more[item.name] for item in takes if item.name in more})

    def _parameter(self, number: int | DataNode | SignedBin | None, bins: int | None) -> Any:
        if self.mag_range is None:
            return None
        magnitudes = self._magnitudes(bins)
        one = number.bin if isinstance(number, SignedBin) else number
        if one is None or (isinstance(one, int) and not 0 <= one < len(magnitudes)):
            raise DefinitionError(
                f"the augmentation {self.name} needs the number of a bin",
                given=one,
                expected=f"magnitude_bin from 0 to {len(magnitudes) - 1}",
            )
        if self.randomly_negate:
            signed = number if isinstance(number, SignedBin) else signed_bin(one)
            magnitudes, one = signed.magnitudes(magnitudes)
        make = cast(Parameters, self.mag_to_param)
        # `mag_to_param` runs on the host, once per magnitude. The samples then index a table of parameters.
        chosen = magnitudes[one : one + 1] if isinstance(one, int) else magnitudes
        result = [np.asarray(make(item)) for item in chosen]
        other = next((item for item in result if (item.dtype, item.shape) != (result[0].dtype, result[0].shape)), None)
        if other is not None:
            raise DefinitionError(
                f"mag_to_param of the augmentation {self.name} gives arrays of one type and shape",
                given=f"{result[0].dtype}{list(result[0].shape)} and {other.dtype}{list(other.shape)}",
            )
        return types.Constant(result[0], layout="") if isinstance(one, int) else fn.constant(np.stack(result))[one]

    def _magnitudes(self, bins: int | None) -> NDArray[Any]:
        if isinstance(self.mag_range, np.ndarray):
            if bins not in (None, len(self.mag_range)):
                raise DefinitionError(
                    f"the augmentation {self.name} has a magnitude for each bin",
                    given=f"{len(self.mag_range)} magnitudes, num_magnitude_bins={bins}",
                )
            return self.mag_range
        if bins is None:
            raise DefinitionError(
                f"the augmentation {self.name} needs to know how many bins there are", fix="num_magnitude_bins=31"
            )
        return np.linspace(*cast(tuple[float, float], self.mag_range), bins, dtype=np.float32)


# The constructor that `dataclass` generated does not check its arguments.
Augmentation.__init__ = defining(Augmentation.__init__)


def augmentation(function: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """Create an augmentation from a function of images and a parameter. Use it with or without arguments.

    Args:
        function: Function of the images, the parameter, and optional further arguments by name.
        settings: Arguments of `Augmentation`.

    Example:
        >>> from penstock import fn
        >>> from penstock.auto_aug.core import augmentation
        >>> @augmentation(mag_range=(0, 30), randomly_negate=True)
        ... def turn(images, angle):
        ...     return fn.rotate(images, angle=angle, keep_size=True)
        >>> turn.name, turn.augmentation((0, 90)).mag_range
        ('turn', (0, 90))
    """
    settings.pop("augmentation_cls", None)
    if function is None:
        return lambda value: Augmentation(value, **settings)
    return Augmentation(function, **settings)


def check_arguments(augmentations: Sequence[Augmentation], arguments: dict[str, Any], function: str) -> None:
    """Check that every argument is in the signature of at least one augmentation.

    Raises:
        DefinitionError: An argument is not in any signature.
    """
    taken = {name for item in augmentations for name in list(inspect.signature(item.op).parameters)[2:]}
    unknown = sorted(arguments.keys() - taken)
    if unknown:
        raise DefinitionError(
            f"{function}: no augmentation takes {', '.join(unknown)}", expected=", ".join(sorted(taken)) or "none"
        )
