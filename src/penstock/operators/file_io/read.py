"""io.file.read: reading of files whose paths the pipeline computes."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from penstock.core import Array, Spec
from penstock.graph import DataNode, Input, Operator, PerformanceHint, SampleContext, SampleKernel, apply, operator
from penstock.sources.storage.local_bytes import read_file


@dataclass(frozen=True)
class ReadFile(Operator, SampleKernel):
    """Bytes of the file at the path in a sample."""

    reads_content: ClassVar[bool] = True
    reproducible: ClassVar[Literal["always", "in a run", "never"]] = "never"

    def infer(self, path: Spec) -> Spec:
        """Return the spec of a vector of bytes."""
        return Spec(np.dtype(np.uint8), (None,))

    def sample(self, context: SampleContext, path: Array) -> Array:
        """Read one file."""
        # Paths that were padded to one length end with zeros. No path contains a zero byte.
        return read_file(np.ascontiguousarray(path).tobytes().split(b"\0", 1)[0], limited=True)


@operator("io.file.read")
def read(
    filepaths: Annotated[DataNode, Input(("uint8", "int8"), (None,), needs="paths as vectors of bytes", paths=True)],
    *,
    dont_use_mmap: PerformanceHint[bool] = False,
    use_o_direct: PerformanceHint[bool] = False,
) -> DataNode:
    """Read files whose paths are computed in the pipeline.

    Args:
        filepaths: Paths as vectors of bytes, uint8 of shape (n,), absolute or relative to the working directory. An
            eager call also takes a string, a `pathlib` path, or a list of them.
        dont_use_mmap: DALI's hint; it has no effect.
        use_o_direct: DALI's hint; it has no effect.

    Returns:
        Bytes of each file, uint8 of shape (n,).

    Raises:
        DefinitionError: The input is not a vector of bytes.
        SampleError: While running, a file cannot be read.
        ResourceError: A file is larger than the limit for one sample (`PENSTOCK_MAX_SAMPLE_SIZE`).

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
