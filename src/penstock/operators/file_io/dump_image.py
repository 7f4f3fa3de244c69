"""dump_image: images as files that every viewer opens, to see what a pipeline makes."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.core.columns import Array, Column
from penstock.core.spec import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph.ir.operator import BatchContext, Operator, WholeBatchKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode

_LAYOUT = "HWC"
_writing = threading.Lock()


@dataclass(frozen=True)
class DumpImage(Operator, WholeBatchKernel):
    """The images themselves; each is written to a file.

    Args:
        suffix: a part of the files' names.
    """

    suffix: str

    def infer(self, images: Spec) -> Spec:
        """The input's."""
        right = images.dtype == np.uint8 and len(images.shape) == 3 and images.shape[2] in (None, 1, 3)
        if not right or images.layout not in ("", _LAYOUT):
            raise DefinitionError(
                "fn.dump_image takes grey images or images of three colours",
                given=images,
                expected="uint8[h, w, 1] or uint8[h, w, 3], layout HWC",
                fix="fn.cast for another type, fn.transpose for another order of axes",
            )
        return images

    def whole_batch(self, context: BatchContext, images: Column) -> Column:
        """They are written by one thread at a time, so that all files show one batch."""
        with _writing:
            for row, image in enumerate(images):
                _write(Path(f"{row}-{self.suffix}-0.ppm"), image)
        return images


def _write(path: Path, image: Array) -> None:
    """Write a file as text, in whole: who looks at it meanwhile sees the one before.

    The formats: https://netpbm.sourceforge.net/doc/ppm.html
    """
    height, width, channels = image.shape
    if channels not in (1, 3):
        raise ValueError(f"an image of {channels} channels, where a file has 1 or 3")
    lines = [" ".join(map(str, line)) for line in image.reshape(height, width * channels).tolist()]
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_text(f"P{channels // 2 + 2}\n{width} {height}\n255\n" + "".join(f"{line} \n" for line in lines))
    unfinished.replace(path)


@operator("dump_image")
def dump_image(images: DataNode, *, suffix: str = "", input_layout: str = _LAYOUT) -> DataNode:
    """Write images to files in the current folder, to look at what a pipeline makes.

    The image in row 3 of a batch goes to "3-{suffix}-0.ppm", as text in the PPM format (PGM where it is grey). The
    next batch overwrites it. Batches are prepared ahead, so what is there may be a batch that was not taken yet; with
    several threads batches may be written in another order, but never mixed. `Pipeline(exec_async=False)` prepares
    none ahead. Several of these operators in a definition need a suffix each.

    Args:
        images: uint8, layout HWC, one or three channels.
        suffix: a part of the files' names.
        input_layout: "HWC", as in DALI, which knows no other either.

    Returns:
        The images, unchanged. A batch cannot be shared by several processes.

    Raises:
        DefinitionError: images that are not uint8 in HWC with 1 or 3 channels.
        SampleError: an image has another number of channels, or the folder cannot be written to.

    Example:
        >>> import contextlib, pathlib, tempfile
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1, exec_async=False)  # so that nothing is written later
        >>> with pipeline:
        ...     grey = fn.readers.arrays(np.arange(4, dtype=np.uint8).reshape(1, 2, 2, 1), layout="HWC")
        ...     pipeline.set_outputs(fn.dump_image(grey, suffix="grey"))
        >>> with contextlib.chdir(tempfile.mkdtemp()):
        ...     _ = pipeline.run()
        ...     pathlib.Path("0-grey-0.ppm").read_text().split()
        ['P2', '2', '2', '255', '0', '1', '2', '3']
    """
    if input_layout != _LAYOUT:
        raise DefinitionError(
            "fn.dump_image: no such input_layout", given=short_repr(input_layout), expected=repr(_LAYOUT)
        )
    if "/" in suffix or "\0" in suffix:
        raise DefinitionError("fn.dump_image: a suffix is a part of a file's name", given=short_repr(suffix))
    return apply(DumpImage(suffix), images)
