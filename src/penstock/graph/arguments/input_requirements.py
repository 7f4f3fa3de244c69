"""Requirements of inputs: dtypes, shapes and layouts that an operator declares in its signature."""

from typing import Any

import numpy as np

from penstock.core import Spec
from penstock.core.dataclass import dataclass
from penstock.core.dtypes import to_dali_type
from penstock.errors import DefinitionError
from penstock.graph.ir.layouts import assumed_layout

# Families of dtypes: NumPy's kinds, and the dtype that an error suggests as a fix.
_FAMILIES = {"integer": ("iu", "int32"), "floating": ("f", "float32"), "number": ("iuf", "float32")}


@dataclass(frozen=True)
class Input:
    """Mark of an input in a signature: ``data: Annotated[DataNode, Input(("uint8",), channels=(3,))]``.

    The input is checked while a definition is traced, before the function of the operator runs.

    Args:
        dtypes: Names of NumPy's dtypes, or "integer", "floating" or "number" (both); any dtype by default.
        shape: Extents of a sample, such as (None, 4), where None stands for any extent.
        ranks: Numbers of axes, such as ``(1, 2)`` or ``range(1, 65)``; any by default.
        axes: Letters that the layout must contain. A value without a layout has the one that DALI assumes by its rank.
        without: Letters that the layout must not contain.
        layouts: The supported layouts, such as ``("HWC", "FHWC")``; any by default.
        channels: Extents of the axis C; any by default.
        needs: The kind of data in words, for messages: "encoded bytes".
        fix: Fix for another dtype or shape; for another dtype, by default a cast to the first of `dtypes`.
        paths: True if the bytes are the path of a file, so that eager calls take strings and `pathlib` paths.
    """

    dtypes: tuple[str, ...] = ()
    shape: tuple[int | None, ...] | None = None
    ranks: tuple[int, ...] | range | None = None
    axes: str = ""
    without: str = ""
    layouts: tuple[str, ...] = ()
    channels: tuple[int, ...] = ()
    needs: str = ""
    fix: str | None = None
    paths: bool = False

    def check(self, name: str, spec: Spec) -> None:
        """Check the spec of an input.

        Args:
            name: Name of the parameter, for messages.
            spec: Spec of the node.

        Raises:
            DefinitionError: The dtype, shape or layout is not supported.
        """
        if not self._has_dtype(spec.dtype):
            fix = self.fix or f"fn.cast({name}, dtype=types.{self._fallback.name})"
            raise DefinitionError(f"{name} has an unsupported dtype", given=spec, expected=self, fix=fix)
        if not self._has_shape(spec.shape):
            raise DefinitionError(f"{name} has an unsupported shape", given=spec, expected=self, fix=self.fix)
        layout = assumed_layout(spec)
        if self.layouts and layout not in self.layouts:
            raise DefinitionError(
                f"{name} has an unsupported layout", given=f"{spec}, {layout}", expected=" or ".join(self.layouts)
            )
        if not set(self.axes) <= set(layout):
            raise DefinitionError(
                f"{name} must have the axes {' and '.join(self.axes)}",
                given=f"a value of {len(spec.shape)} axes, layout {spec.layout!r}"
                if spec.layout
                else f"{spec}, no layout",
                expected=self.needs or "a layout such as HWC",
                fix=f"decode first (fn.decoders.image), or name the axes with fn.reshape({name}, layout='HWC')",
            )
        if unsupported := set(self.without) & set(layout):
            what = (
                "volumes are not supported" if "D" in unsupported else f"an axis {unsupported.pop()} is not supported"
            )
            raise DefinitionError(what, given=f"layout {layout!r}", expected=self.needs or "HWC, CHW, FHWC or the like")
        extent = spec.shape[layout.index("C")] if self.channels and "C" in layout else None
        if extent is not None and extent not in self.channels:
            raise DefinitionError(f"{name} has an unsupported number of channels", given=spec, expected=self)

    def _has_dtype(self, dtype: np.dtype[Any]) -> bool:
        return not self.dtypes or any(
            dtype.kind in _FAMILIES[item][0] if item in _FAMILIES else dtype.name == item for item in self.dtypes
        )

    @property
    def _fallback(self) -> Any:
        first = self.dtypes[0]
        return to_dali_type(_FAMILIES[first][1] if first in _FAMILIES else first)

    def _has_shape(self, shape: tuple[int | None, ...]) -> bool:
        if self.ranks is not None and len(shape) not in self.ranks:
            return False
        return self.shape is None or (
            len(shape) == len(self.shape)
            and all(
                extent is None or own is None or own == extent for own, extent in zip(shape, self.shape, strict=True)
            )
        )

    def __str__(self) -> str:
        dtype = " or ".join(self.dtypes)
        if self.shape is not None:
            dtype += f"[{', '.join('n' if extent is None else str(extent) for extent in self.shape)}]"
        channels = f"{' or '.join(map(str, self.channels))} channels" if self.channels else ""
        ranks = f"{' or '.join(map(str, self.ranks))} axes" if isinstance(self.ranks, tuple) else ""
        ranks = "at least one axis" if isinstance(self.ranks, range) else ranks
        return ", ".join(filter(None, (self.needs, dtype, ranks, channels)))
