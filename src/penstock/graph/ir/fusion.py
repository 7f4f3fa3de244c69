"""The contract of operators that are fused: described in numbers first, then computed in one visit to the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array, Column, RowSelection
from penstock.core.spec import Spec
from penstock.graph.ir.operator import Operator


@dataclass(frozen=True, slots=True)
class FusedOperator:
    """One operator of a chain.

    Args:
        operator: the operator.
        input_spec: the spec of its first input.
        output_spec: the spec of its output.
        varies_by_row: whether what it does may differ from row to row and from batch to batch: it draws random numbers,
            or an argument is computed.
    """

    operator: Operator
    input_spec: Spec
    output_spec: Spec
    varies_by_row: bool


@dataclass(frozen=True, slots=True)
class Passes:
    """Description of the work of a fusion group for some rows: numbers, no data.

    Args:
        passes: Visits to the data, in order, in the terms of the family.
        shapes: Shapes of the results, int64 (rows, axes).
        headers: If a decoder starts the group, the header of each row's file.
        reductions: If a decoder starts the group, per row 2, 4 or 8 if the image is decoded at 1/2, 1/4 or 1/8 of its
            size, otherwise 1.
    """

    passes: Sequence[Any]
    shapes: NDArray[np.int64]
    headers: Sequence[Any] = ()
    reductions: Sequence[int] = ()


class CanvasProgram(Protocol):
    """How the device program does a chain's work that is described on the host, row by row."""

    @property
    def size(self) -> int:
        """How many numbers describe a row."""
        ...

    def pack(self, passes: Passes) -> NDArray[np.float32]:
        """Return the numbers of some rows as float32 (rows, size).

        Raises:
            ValueError: a row needs more of them.
        """
        ...

    def trace(self, data: Any, numbers: Any) -> Any:
        """The result for a batch. Called while JAX traces the device program.

        Args:
            data: the first operator's input, (rows, ...); where its samples differ in size, each in the first corner.
            numbers: what `pack` gave.
        """
        ...


class FusionGroup(ABC):
    """Operators of one family, each computing from the one before it, that are computed in one visit to the data.

    They say first, in numbers, what they will do; then it is done.

    Args:
        links: the operators, in order.
    """

    @abstractmethod
    def __init__(self, links: Sequence[FusedOperator]) -> None: ...

    @abstractmethod
    def describe(
        self, data: Column | RowSelection, arguments: Sequence[Mapping[str, Any]], bits: Sequence[Any]
    ) -> Passes:
        """Describe the work for some rows. Reads nothing of the data but sizes and headers.

        Args:
            data: Input of the first operator.
            arguments: Arguments of each operator; those of its schema with an entry per row.
            bits: Random bits of each operator, or None.
        """

    @abstractmethod
    def execute(self, passes: Passes, data: Column | RowSelection, out: Array | None) -> Column:
        """Compute the results.

        Args:
            passes: Result of `describe`.
            data: Data that it described.
            out: Memory for the results, (rows, ...), if all have one shape. None: allocate it.

        Returns:
            `out`, or one array per row.
        """

    @abstractmethod
    def trace(self, data: Any, arguments: Sequence[Mapping[str, Any]], bits: Sequence[Any]) -> Any:
        """The result for a dense batch. Called while JAX traces the device program.

        Args:
            data: the first operator's input, (rows, ...).
            arguments: per operator, its arguments: constants as NumPy arrays with one entry, what varies as arrays of
                the program with an entry per row.
            bits: per operator, its random bits, or None.
        """

    @abstractmethod
    def canvas(self, arguments: Sequence[Mapping[str, Any]]) -> CanvasProgram:
        """How the device program can do it, while the host describes it.

        Args:
            arguments: per operator, its arguments with one entry; a typical one where they vary.

        Raises:
            ValueError: it cannot.
        """


class FusibleOperator(ABC):
    """An operator that is computed together with those before and after it, where nobody else needs what lies between.

    Its output follows from its first input and its arguments; it has one output.
    """

    fusion_group: ClassVar[type[FusionGroup]]
    """What computes chains of its family. Operators of one family stand in one chain."""

    starts_group: ClassVar[bool] = False
    """Whether it only begins chains: its input is none of the family's values, as encoded bytes are no image."""

    @property
    def traceable(self) -> bool:
        """Whether it can be described in the device program where its arguments, or random bits, vary by row."""
        return True
