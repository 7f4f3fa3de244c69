"""Dynamic mode: DALI's `experimental.dynamic`, whose operators compute as they are called.

Change the import of a program: ``import penstock.experimental.dynamic as ndd``.
`docs/how-to/migrate/dali-dynamic-mode.md` lists what differs.

>>> import numpy as np
>>> from penstock import dynamic as ndd
>>> image = ndd.tensor(np.zeros((6, 4, 3), np.uint8), layout="HWC")
>>> ndd.rotate(image, angle=90).shape
(4, 6, 3)
>>> ndd.rotate(image, angle=ndd.batch([0.0, 90.0])).shape
[(6, 4, 3), (4, 6, 3)]
"""

import sys as _sys
from typing import Any as _Any

import penstock.fn as _fn  # noqa: F401  # registers the operators
from penstock.dynamic.cuda_stream import Stream as Stream
from penstock.dynamic.cuda_stream import get_current_stream as get_current_stream
from penstock.dynamic.cuda_stream import get_default_stream as get_default_stream
from penstock.dynamic.cuda_stream import set_current_stream as set_current_stream
from penstock.dynamic.cuda_stream import set_default_stream as set_default_stream
from penstock.dynamic.cuda_stream import stream as stream
from penstock.dynamic.device_name import Device as Device
from penstock.dynamic.device_name import device as device
from penstock.dynamic.dynamic_source import ExternalSource as ExternalSource
from penstock.dynamic.dynamic_tensor import Batch as Batch
from penstock.dynamic.dynamic_tensor import Tensor as Tensor
from penstock.dynamic.element_type import BY_NAME as _BY_NAME
from penstock.dynamic.element_type import DType as DType
from penstock.dynamic.element_type import dtype as dtype
from penstock.dynamic.element_type import type_id as type_id
from penstock.dynamic.evaluation_context import EvalContext as EvalContext
from penstock.dynamic.evaluation_mode import EvalMode as EvalMode
from penstock.dynamic.function_call import imread as imread
from penstock.dynamic.operator_modules import functions_of as _functions_of
from penstock.dynamic.tensor_conversion import as_batch as as_batch
from penstock.dynamic.tensor_conversion import as_tensor as as_tensor
from penstock.dynamic.tensor_conversion import batch as batch
from penstock.dynamic.tensor_conversion import tensor as tensor
from penstock.dynamic.thread_pool import ThreadPool as ThreadPool
from penstock.dynamic.thread_pool import get_num_threads as get_num_threads
from penstock.dynamic.thread_pool import set_num_threads as set_num_threads
from penstock.types import LastBatchPolicy as LastBatchPolicy

globals().update(_BY_NAME)
_functions, __dir__ = _functions_of("", _sys.modules[__name__])


def __getattr__(name: str) -> _Any:
    return _functions(name)
