"""Contract of fused operators: described in numbers first, then executed in one visit to the data."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Column, RowSelection, Spec
from penstock.core.dataclass import dataclass
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
        headers: If a decoder starts the group, the headers of the rows' files, in the terms of the family.
        reductions: If a decoder starts the group, per row 2, 4 or 8 if the image is decoded at 1/2, 1/4 or 1/8 of its
            size, otherwise 1.
    """

    passes: Sequence[Any]
    shapes: NDArray[np.int64]
    headers: Any = ()
    reductions: Sequence[int] = ()


class CanvasProgram(Protocol):
    """Execution in the device program of a fusion group that the host describes, row by row."""

    @property
    def size(self) -> int:
        """Number of numbers per row."""
        ...

    def pack(self, passes: Passes) -> NDArray[np.float32]:
        """Return the numbers of some rows as float32 (rows, size).

        Raises:
            ValueError: A row needs more numbers.
        """
        ...

    def trace(self, data: Any, numbers: Any) -> Any:
        """Compute a batch, while JAX traces the device program.

        Args:
            data: Input of the first operator, (rows, ...). Ragged samples are in the first corner of canvases.
            numbers: Result of `pack`.
        """
        ...


class FusionGroup(ABC):
    """Operators of one family, each the input of the next, that are computed in one visit to the data.

    `describe` states in numbers what they will do; `execute` does it.

    Args:
        links: Operators, in order.
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
        """Compute a dense batch, while JAX traces the device program.

        Args:
            data: Input of the first operator, (rows, ...).
            arguments: Arguments of each operator: constants as NumPy arrays with one entry, others as arrays of the
                program with one entry per row.
            bits: Random bits of each operator, or None.
        """

    @abstractmethod
    def canvas(self, arguments: Sequence[Mapping[str, Any]]) -> CanvasProgram:
        """Plan the execution in the device program, while the host describes each batch.

        Args:
            arguments: Arguments of each operator with one entry; a typical value of those that vary.

        Raises:
            ValueError: The device program cannot execute the group.
        """


class FusibleOperator(ABC):
    """An operator that is computed together with those before and after it, where nobody else needs what lies between.

    Its output follows from its first input and its arguments; it has one output.
    """

    fusion_group: ClassVar[type[FusionGroup]]
    """Group that computes chains of this family. Only operators of one family are chained."""

    starts_group: ClassVar[bool] = False
    """True if it can only start a chain, because its input is not a value of the family (such as encoded bytes)."""

    @property
    def runs_python_per_sample(self) -> bool:
        """True if it makes a call from Python for each sample, so that threads compete for the GIL."""
        return False

    @property
    def traceable(self) -> bool:
        """True if the device program can describe it when its arguments or random bits vary by row."""
        return True
