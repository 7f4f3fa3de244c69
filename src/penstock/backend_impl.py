"""DALI's `nvidia.dali.backend_impl`, from which programs take the classes of batches and samples, and types."""

import sys

from penstock import tfrecord as tfrecord
from penstock import types as types
from penstock.absent import absent
from penstock.host.tensor_lists import TensorListCPU as TensorListCPU
from penstock.host.tensor_lists import TensorListGPU as TensorListGPU
from penstock.host.tensors import TensorCPU as TensorCPU
from penstock.host.tensors import TensorGPU as TensorGPU

sys.modules[f"{__name__}.tfrecord"], sys.modules[f"{__name__}.types"] = tfrecord, types  # modules of it in DALI

__getattr__ = absent("penstock.backend")
