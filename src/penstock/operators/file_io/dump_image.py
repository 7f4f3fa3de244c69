"""dump_image: images written to files, for a look at intermediate results."""

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from penstock.core import Array, Column, Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph import BatchContext, DataNode, Input, Operator, WholeBatchKernel, apply, operator

_write_lock = threading.Lock()


@dataclass(frozen=True)
class DumpImage(Operator, WholeBatchKernel):
    """Identity that also writes each image to a file.

    Args:
        suffix: Part of the file names.
    """

    suffix: str

    def infer(self, images: Spec) -> Spec:
        """Return the spec of the input."""
        if images.layout not in ("", "HWC"):
            raise DefinitionError("the layout must be HWC", given=images, fix="fn.transpose")
        return images

    def whole_batch(self, context: BatchContext, images: Column) -> Column:
        """Write the images of a batch."""
        # Several batches may be in work at once. The lock keeps files of different batches from mixing.
        with _write_lock:
            for row, image in enumerate(images):
                _write(Path(f"{row}-{self.suffix}-0.ppm"), image)
        return images


def _write(path: Path, image: Array) -> None:
    """Write an image as a text file, atomically.

    Format: https://netpbm.sourceforge.net/doc/ppm.html
    """
    height, width, channels = image.shape
    if channels not in (1, 3):
        raise ValueError(f"the image has {channels} channels, but a PPM file holds 1 or 3")
    lines = [" ".join(map(str, line)) for line in image.reshape(height, width * channels).tolist()]
    # A viewer that has the file open must not see half of it: write beside it, then rename. The process ID keeps
    # processes that share the folder apart. P2 is the magic of a PGM as text, P3 that of a PPM.
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_text(f"P{channels // 2 + 2}\n{width} {height}\n255\n" + "".join(f"{line} \n" for line in lines))
    unfinished.replace(path)


@operator("dump_image")
def dump_image(
    images: Annotated[DataNode, Input(("uint8",), ranks=(3,), axes="HWC", channels=(1, 3), needs="gray or RGB images")],
    *,
    suffix: str = "",
    input_layout: Literal["HWC"] = "HWC",
) -> DataNode:
    """Write images to files in the working directory, to inspect what a pipeline computes.

    The image in row 3 of a batch is written to "3-{suffix}-0.ppm", as text in the PPM format (PGM for gray images). The
    next batch overwrites it. Because batches are prefetched, the files may show a batch that you have not received yet;
    with several threads, batches may be written out of order, but files never mix two batches.
    `Pipeline(exec_async=False)` does not prefetch. Give each of these operators in a definition another suffix.

    Args:
        images: Images, uint8, layout HWC, with one or three channels.
        suffix: Part of the file names.
        input_layout: Layout of the images; only "HWC", as in DALI.

    Returns:
        The images, unchanged. A batch cannot be divided between processes.

    Raises:
        DefinitionError: The images are not uint8 in HWC with 1 or 3 channels.
        SampleError: While running, an image has another number of channels, or the directory is not writable.

    Example:
        >>> import contextlib, pathlib, tempfile
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1, exec_async=False)  # so that nothing is written later
        >>> with pipeline:
        ...     gray = fn.readers.arrays(np.arange(4, dtype=np.uint8).reshape(1, 2, 2, 1), layout="HWC")
        ...     pipeline.set_outputs(fn.dump_image(gray, suffix="gray"))
        >>> with contextlib.chdir(tempfile.mkdtemp()):
        ...     _ = pipeline.run()
        ...     pathlib.Path("0-gray-0.ppm").read_text().split()
        ['P2', '2', '2', '255', '0', '1', '2', '3']
    """
    del input_layout
    # Neither can be in a file name; a slash would also write outside of the working directory.
    if "/" in suffix or "\0" in suffix:
        raise DefinitionError("suffix must be a part of a file name", given=short_repr(suffix))
    return apply(DumpImage(suffix), images)
