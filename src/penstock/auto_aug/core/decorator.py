"""Augmentations whose strength is the number of a bin, with the same bins for all of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from penstock import fn, types
from penstock.core.call_site import user_call_site
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph.arguments.argument_checks import check_annotations
from penstock.graph.arguments.argument_marks import Range
from penstock.graph.tracing.trace import DataNode

Parameters = Callable[[Any], Any]

# Number of magnitude bins.
Bins = Annotated[int, Range(1, 1 << 16)]

Translation = float | tuple[float, float] | None
"""The greatest translation: one number, or one for the height and one for the width; None for the default."""

defining = functools.partial(check_annotations, kind=ArgumentTypeError, limits=DefinitionError)
"""Checks the arguments of a function that is called in a definition."""


@dataclass(frozen=True)
class SignedBin:
    """The number of a bin, and for each sample whether its magnitude is negated.

    Args:
        bin: a number, or a node with one or several per sample.
        sign: a node of zeros and ones, likewise; 1 negates.
    """

    bin: int | DataNode
    sign: DataNode

    def __getitem__(self, number: int) -> SignedBin:
        """Select the bin of one of several consecutive augmentations."""
        return SignedBin(self.bin if isinstance(self.bin, int) else self.bin[number], self.sign[number])

    def magnitudes(self, values: NDArray[Any]) -> tuple[NDArray[Any], int | DataNode]:
        """The magnitudes of both signs, and the entry that each sample takes."""
        if isinstance(self.bin, int):
            return np.stack([values[self.bin], -values[self.bin]]), self.sign
        return np.stack([values, -values], axis=1).reshape(-1), self.bin * 2 + self.sign


def signed_bin(
    magnitude_bin: int | DataNode, random_sign: DataNode | None = None, seed: int | None = None, shape: Any = None
) -> SignedBin:
    """Draw for each sample whether its magnitude is negated.

    Args:
        magnitude_bin: the number of a bin, or a node with one or several per sample.
        random_sign: zeros and ones that are drawn already.
        seed: of the draw.
        shape: how many signs each sample gets; one by default.

    Returns:
        The bins with their signs. Indexing gives those of one of several augmentations in a row.
    """
    if random_sign is None:
        more = seeded(seed) if shape is None else {"shape": shape, **seeded(seed)}
        random_sign = fn.random.uniform(values=[0, 1], dtype=types.INT32, **more)
    return SignedBin(magnitude_bin, random_sign)


def seeded(seed: int | None) -> dict[str, Any]:
    """The arguments by which an operator gets a seed, where one is given."""
    return {} if seed is None else {"seed": seed}


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, eq=False, repr=False)
class Augmentation:
    """A function of images and a parameter that follows from the number of a bin.

    Args:
        op: takes the images, the parameter, and perhaps further arguments by name.
        mag_range: the magnitudes of the first and the last bin; or an array with one per bin; None for an augmentation
            without magnitudes, whose parameter is None.
        randomly_negate: whether magnitudes are negated for half of the samples.
        mag_to_param: makes the parameter of a magnitude, as an array; the magnitude itself by default.
        param_device: accepted as DALI has it, without effect.
        name: what policies call it; the function's name by default.

    Raises:
        ArgumentTypeError: the function is one already, or does not take images and a parameter by position.
    """

    op: Callable[..., Any]
    mag_range: tuple[float, float] | NDArray[Any] | None = None
    randomly_negate: bool | None = None
    mag_to_param: Parameters | None = None
    param_device: str | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.mag_range, np.ndarray) and self.mag_range.ndim != 1:
            raise ArgumentTypeError("mag_range has a number for each bin", given=self.mag_range, where=user_call_site())
        if isinstance(self.op, Augmentation):
            raise ArgumentTypeError(
                "this is an augmentation already", given=self.op.name, fix="change it by its .augmentation(...)"
            )
        kinds = [item.kind for item in inspect.signature(self.op).parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL not in kinds and sum(kind in _BY_POSITION for kind in kinds) < 2:
            raise ArgumentTypeError(
                "an augmentation takes images and a parameter", given=short_repr(self.op),
                expected="a function of at least two positional arguments", where=user_call_site(),
            )  # fmt: skip
        own = getattr(self.op, "__name__", "augmentation")
        defaults = {"name": own, "randomly_negate": False, "mag_to_param": np.asarray, "param_device": "cpu"}
        for name, default in defaults.items():
            value = getattr(self, name)
            object.__setattr__(self, name, default if value in (None, "") else value)

    def __repr__(self) -> str:
        return f"Augmentation({self.name})"

    def augmentation(self, *given: Any, **changed: Any) -> Augmentation:
        """The same function with other settings: `mag_range`, `randomly_negate`, `mag_to_param`, ... in this order.

        None stands for the default.
        """
        names = ("mag_range", "randomly_negate", "mag_to_param", "param_device", "name")
        changed.pop("augmentation_cls", None)
        settings = {**dict(zip(names, given, strict=False)), **changed}
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
            data: the images.
            magnitude_bin: the number of a bin; one for all samples, or a node with one for each, perhaps with signs.
            num_magnitude_bins: how many bins there are.
            more: arguments for the function; those that it does not take are left out.

        Returns:
            The augmented images.

        Raises:
            DefinitionError: no bin, a bin that does not exist, or an argument that the function needs and does not get.
        """
        parameter = self._parameter(magnitude_bin, num_magnitude_bins)
        takes = list(inspect.signature(self.op).parameters.values())[2:]
        missing = [item.name for item in takes if item.default is item.empty and item.name not in more]
        if missing:
            raise DefinitionError(
                f"the augmentation {self.name} needs more arguments",
                expected=", ".join(missing),
                where=user_call_site(),
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
                where=user_call_site(),
            )
        if self.randomly_negate:
            signed = number if isinstance(number, SignedBin) else signed_bin(one)
            magnitudes, one = signed.magnitudes(magnitudes)
        make = cast(Parameters, self.mag_to_param)
        chosen = magnitudes[one : one + 1] if isinstance(one, int) else magnitudes
        result = [np.asarray(make(item)) for item in chosen]
        other = next((item for item in result if (item.dtype, item.shape) != (result[0].dtype, result[0].shape)), None)
        if other is not None:
            raise DefinitionError(
                f"mag_to_param of the augmentation {self.name} gives arrays of one type and shape",
                given=f"{result[0].dtype}{list(result[0].shape)} and {other.dtype}{list(other.shape)}",
                where=user_call_site(),
            )
        return types.Constant(result[0], layout="") if isinstance(one, int) else fn.constant(np.stack(result))[one]

    def _magnitudes(self, bins: int | None) -> NDArray[Any]:
        if isinstance(self.mag_range, np.ndarray):
            if bins not in (None, len(self.mag_range)):
                raise DefinitionError(
                    f"the augmentation {self.name} has a magnitude for each bin",
                    given=f"{len(self.mag_range)} magnitudes, num_magnitude_bins={bins}",
                    where=user_call_site(),
                )
            return self.mag_range
        if bins is None:
            raise DefinitionError(
                f"the augmentation {self.name} needs to know how many bins there are",
                fix="num_magnitude_bins=31",
                where=user_call_site(),
            )
        return np.linspace(*cast(tuple[float, float], self.mag_range), bins, dtype=np.float32)


Augmentation.__init__ = defining(Augmentation.__init__)  # which `dataclass` wrote


def augmentation(function: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """Make an augmentation of a function of images and a parameter. A decorator, with or without arguments.

    Args:
        function: takes the images, the parameter, and perhaps further arguments by name.
        settings: those of `Augmentation`.

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


def check_arguments(augmentations: Sequence[Augmentation], given: dict[str, Any], what: str) -> None:
    """Check that each argument is one that some augmentation takes.

    Raises:
        DefinitionError: none takes it.
    """
    taken = {name for item in augmentations for name in list(inspect.signature(item.op).parameters)[2:]}
    unknown = sorted(given.keys() - taken)
    if unknown:
        raise DefinitionError(
            f"{what}: no augmentation takes {', '.join(unknown)}",
            expected=", ".join(sorted(taken)) or "none",
            where=user_call_site(),
        )
