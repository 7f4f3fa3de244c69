"""DALI's `nvidia.dali.backend`: the classes of batches and samples that programs use."""

from penstock.core.unsupported import module_getattr
from penstock.pipeline.tensor import TensorCPU as TensorCPU
from penstock.pipeline.tensor import TensorGPU as TensorGPU
from penstock.pipeline.tensor_list import TensorListCPU as TensorListCPU
from penstock.pipeline.tensor_list import TensorListGPU as TensorListGPU


def ReleaseUnusedMemory(*_amount: float, **_named: float) -> None:  # noqa: N802  # DALI's name
    """Do nothing: JAX and NumPy own the memory. The aliases below do the same."""


PreallocateDeviceMemory = PreallocatePinnedMemory = ReleaseUnusedMemory
SetBufferGrowthFactor = SetDeviceBufferGrowthFactor = SetHostBufferGrowthFactor = ReleaseUnusedMemory
SetHostBufferShrinkThreshold = RestrictPinnedMemUsage = ReleaseUnusedMemory


__getattr__ = module_getattr(__name__)
