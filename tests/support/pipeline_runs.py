"""Pipelines built from a function, and their batches as arrays."""

import numpy as np

from penstock import fn, pipeline_def
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.testing import ListSource


def read(columns, layout=""):
    """Return a node per column: dense for an array, ragged if some column is a list of samples."""
    layouts = [layout] * len(columns) if isinstance(layout, str) else list(layout)
    if all(isinstance(column, np.ndarray) for column in columns):
        return fn.readers.arrays(tuple(columns), layout=layouts)
    return apply_reader(ListSource(columns, layouts), {})


def build_pipeline(define, *columns, layout="", batch_size=None, seed=1, **options):
    """Return the pipeline of `define`, which receives a node per column.

    Args:
        define: Function from nodes to one node or several.
        columns: Samples of each input.
        layout: Layout of all columns, or one layout per column.
        batch_size: Rows per batch, by default all samples.
        seed: Seed of the pipeline.
        options: Further arguments of `Pipeline`.
    """
    definition = (lambda: define(*read(columns, layout))) if columns else define
    return pipeline_def(definition, batch_size=batch_size or len(columns[0]), seed=seed, **options)()


def run(define, *columns, **options):
    """Return the first batch of `build_pipeline`: an array per dense output, a list of arrays per ragged output."""
    pipeline = build_pipeline(define, *columns, **options)
    outputs = [
        output.as_array() if output.is_dense_tensor() else [np.asarray(sample) for sample in output]
        for output in pipeline.run()
    ]
    pipeline.close()
    return outputs
