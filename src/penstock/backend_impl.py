"""DALI's `nvidia.dali.backend_impl`: the classes of batches and samples, and types."""

import sys

from penstock import tfrecord as tfrecord
from penstock import types as types
from penstock.core.unsupported import module_getattr
from penstock.pipeline.tensor import TensorCPU as TensorCPU
from penstock.pipeline.tensor import TensorGPU as TensorGPU
from penstock.pipeline.tensor_list import TensorListCPU as TensorListCPU
from penstock.pipeline.tensor_list import TensorListGPU as TensorListGPU

# In DALI these are modules of `backend_impl`, so `import penstock.backend_impl.types` must work.
sys.modules[f"{__name__}.tfrecord"], sys.modules[f"{__name__}.types"] = tfrecord, types

__getattr__ = module_getattr("penstock.backend")
