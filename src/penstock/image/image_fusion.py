"""Fusion of image operators: described together for some rows, then executed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Column, RowSelection
from penstock.graph.ir.fusion_contract import FusedOperator, FusionGroup, Passes
from penstock.image.describe.pass_builder import PassBuilder
from penstock.image.describe.pixel_pass import Pass
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.execute.decode_executor import EncodedImages, decode_rows, reduce_images
from penstock.image.execute.prepared_passes import PreparedPasses
from penstock.image.execute.row_executor import DenseImages, Images, RaggedImages, execute_rows
from penstock.image.kernels.scratch_memory import ScratchMemory

if TYPE_CHECKING:
    from penstock.image.execute.canvas_packing import ImageCanvasProgram
    from penstock.image.image_operator import ImageDecoder, ImageOperator


class ImageFusion(FusionGroup):
    """Image operators, optionally after a decoder."""

    def __init__(self, links: Sequence[FusedOperator]) -> None:
        self._links = links
        operators: list[Any] = [link.operator for link in links]
        self._decoder: ImageDecoder | None = operators.pop(0) if operators[0].starts_group else None
        self._operators: list[ImageOperator] = operators
        first = links[0].output_spec if self._decoder else links[0].input_spec
        self._layout = first.layout or next((op.assumed_layout for op in operators if op.assumed_layout), "")
        inputs = links[1:] if self._decoder else links
        # The layout that each operator sees.
        self._layouts = [
            link.input_spec.layout or op.assumed_layout for link, op in zip(inputs, operators, strict=True)
        ]
        self._ndim, self._dtype = len(first.shape), first.dtype
        self._scratch = ScratchMemory()
        self._sizes_differ = self._decoder is not None or not first.dense
        self._varies = any(link.varies_by_row for link in links)
        if self._decoder is not None:
            self._varies |= self._decoder.reduced  # by the headers
        constant = (
            list(takewhile(lambda link: not link.varies_by_row, links)) if first.dense and not self._decoder else []
        )
        # The first operators have the same steps for every batch with as many rows, so these are cached. So are the
        # passes, if no operator varies: for files and ragged images, those of the last sizes. To describe one image
        # takes a fourth of the time of resizing it.
        self._constant = len(constant)
        self._last: tuple[int | bytes, Passes | None, dict[int, Sequence[Step]]] = -1, None, {}
        self._prepared = PreparedPasses([])

    def describe(
        self, data: Column | RowSelection, arguments: Sequence[Mapping[str, Any]], bits: Sequence[Any]
    ) -> Passes:
        """Describe the rows, from the shapes of images or the headers of files."""
        last, known, steps = self._last
        headers: Any = ()
        if self._decoder is not None:
            headers = self._decoder.read_headers(list(data))
            sizes = headers.shapes
            arguments, bits = arguments[1:], bits[1:]
        elif isinstance(data, np.ndarray | RowSelection):
            sizes = _sizes_of_all(len(data), data.shape[1:])
        else:
            sizes = np.array([image.shape for image in data], np.int64)
        batch = sizes.tobytes() if self._sizes_differ and not self._varies else len(data)
        if last != batch:
            known, steps = None, {}
        if known is not None:
            return known if self._decoder is None else replace(known, headers=headers)
        builder = PassBuilder(sizes.reshape(len(data), self._ndim), self._layout, self._dtype)
        # Each operator sees the sizes and the dtype that the one before it leaves.
        for number, (operator, values, random) in enumerate(zip(self._operators, arguments, bits, strict=True)):
            images = ImageInfo(np, len(data), builder.sizes, builder.dtype)
            described = steps.get(number) or operator.describe(images, random, **values)
            if number < self._constant:
                steps[number] = described
            builder.add(described, self._layouts[number])
        needed = _without_identity(builder.passes)
        reductions = [1] * len(headers)
        if self._decoder is not None and self._decoder.reduced and needed[0].resampled:
            reductions = reduce_images(needed[0], headers)
        passes = Passes(needed, needed[-1].shapes, headers, reductions)
        # One assignment, because several threads describe at the same time.
        self._last = batch, None if self._varies else passes, steps
        return passes

    def execute(self, passes: Passes, data: Column | RowSelection, out: Array | None) -> Column:
        """Execute passes on images in memory or in files."""
        images: Images
        if self._decoder is not None and len(passes.passes) == 1 and passes.passes[0].is_identity:
            return decode_rows(data, passes.headers, self._decoder, out)
        prepared = self._prepare(passes)
        if self._decoder is not None:
            images = EncodedImages(data, passes, prepared, self._decoder, self._scratch)
        elif isinstance(data, list):
            images = RaggedImages(data, self._scratch)
        else:
            images = DenseImages(data, passes.passes, self._scratch)
        return execute_rows(passes, prepared, images, out)

    def _prepare(self, passes: Passes) -> PreparedPasses:
        """Return passes in the form for execution, which batches share while `describe` returns the same passes."""
        prepared = self._prepared
        if prepared.passes is not passes.passes:
            prepared = self._prepared = PreparedPasses(passes.passes)
        return prepared

    def trace(self, data: Any, arguments: Sequence[Mapping[str, Any]], bits: Sequence[Any]) -> Any:
        """Describe and execute while JAX traces the device program."""
        import jax.numpy as jnp  # noqa: PLC0415  # needs JAX

        from penstock.image.execute.xla_executor import trace_passes  # noqa: PLC0415  # needs JAX

        sizes = np.array([self._links[0].input_spec.fixed_shape], np.int32)
        builder = PassBuilder(sizes, self._layout, self._dtype, jnp)
        operators = zip(self._links, self._operators, self._layouts, strict=True)
        for (link, operator, layout), values, random in zip(operators, arguments, bits, strict=True):
            # Operators that do not vary are described with NumPy, so that their numbers become constants.
            varies = random is not None or not all(isinstance(value, np.ndarray) for value in values.values())
            sizes = [np.array([size], np.int32) for size in link.input_spec.fixed_shape]
            images = ImageInfo(jnp if varies else np, data.shape[0] if varies else 1, sizes, builder.dtype)
            builder.add(operator.describe(images, random, **values), layout)
            # Specs know the sizes even if steps compute them from traced arguments.
            builder.set_sizes(link.output_spec.fixed_shape)
        return trace_passes(builder.passes, data)

    def canvas(self, arguments: Sequence[Mapping[str, Any]]) -> "ImageCanvasProgram":
        """Plan the execution in the device program, with numbers from the host."""
        from penstock.image.execute.canvas_packing import ImageCanvasProgram  # noqa: PLC0415  # for canvases alone

        limits = self._links[0].input_spec.storage_shape
        if self._decoder is not None or limits is None:
            raise ValueError("the largest size of its input is unknown")
        builder = PassBuilder(np.array([limits], np.int64), self._layout, self._dtype)
        operators = zip(self._links, self._operators, self._layouts, strict=True)
        for (link, operator, layout), values in zip(operators, arguments, strict=True):
            bits = np.zeros((1, operator.random_bits), np.uint32) if operator.random_bits else None
            before = len(builder.passes)
            builder.add(operator.describe(ImageInfo(np, 1, builder.sizes, builder.dtype), bits, **values), layout)
            bounds = link.output_spec.storage_shape
            # Results between two passes of one operator have no spec: they must be as large as its input or output.
            for pass_ in builder.passes[before - 1 : -1]:
                sizes = pass_.shapes[0].tolist()
                if not limits or not all(
                    size in known for size, *known in zip(sizes, limits, bounds or limits, strict=True)
                ):
                    raise ValueError("the largest size of an intermediate result is unknown")
            limits = bounds
            if limits is not None:
                builder.set_sizes(limits)
        return ImageCanvasProgram(_without_identity(builder.passes), self._links[0].input_spec.storage_shape or ())


@lru_cache(maxsize=64)
def _sizes_of_all(rows: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the sizes of images of one shape. Read-only, because the cache shares them."""
    return np.broadcast_to(np.array(shape, np.int64), (rows, len(shape)))


def _without_identity(passes: list[Pass]) -> list[Pass]:
    return passes if len(passes) == 1 or not passes[-1].is_identity else passes[:-1]
