"""io.file.read: the bytes of a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import PerformanceHint
from penstock.graph.ir.operator import Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.sources.storage.local_bytes import read_file


@dataclass(frozen=True)
class ReadFile(Operator, SampleKernel):
    """The bytes of the file whose path a sample holds."""

    reads_content: ClassVar[bool] = True

    def infer(self, path: Spec) -> Spec:
        """Bytes, any number of them."""
        if path.dtype.kind not in "iu" or path.dtype.itemsize != 1 or len(path.shape) != 1:
            raise DefinitionError("fn.io.file.read takes paths as vectors of bytes", given=path, expected="uint8[n]")
        return Spec(np.dtype(np.uint8), (None,))

    def sample(self, context: SampleContext, path: Array) -> Array:
        """The bytes; zeros after a path end it."""
        return read_file(np.ascontiguousarray(path).tobytes().split(b"\0", 1)[0], limited=True)


@operator("io.file.read")
def read(
    filepaths: DataNode,
    *,
    dont_use_mmap: PerformanceHint[bool] = False,
    use_o_direct: PerformanceHint[bool] = False,
) -> DataNode:
    """Read files whose paths are computed in the pipeline.

    Args:
        filepaths: paths as vectors of bytes, absolute or relative to where the program runs.
        dont_use_mmap: a hint of DALI's, without effect.
        use_o_direct: a hint of DALI's, without effect.

    Returns:
        uint8, the bytes of each file.

    Raises:
        DefinitionError: the input is no vector of bytes.
        SampleError: a file that cannot be read.
        ResourceError: a file of more bytes than are read for one sample (`PENSTOCK_MAX_SAMPLE_SIZE`).

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "number"
        >>> _ = path.write_bytes(b"42")
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.io.file.read(np.frombuffer(str(path).encode(), np.uint8)))
        >>> bytes(pipeline.run()[0].at(0))
        b'42'
    """
    del dont_use_mmap, use_o_direct
    return apply(ReadFile(), filepaths)
