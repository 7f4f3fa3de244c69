"""DALI's `nvidia.dali.backend`, of which programs use the classes of batches and samples."""

from penstock.absent import absent
from penstock.host.tensor_lists import TensorListCPU as TensorListCPU
from penstock.host.tensor_lists import TensorListGPU as TensorListGPU
from penstock.host.tensors import TensorCPU as TensorCPU
from penstock.host.tensors import TensorGPU as TensorGPU


def ReleaseUnusedMemory(*_amount: float, **_named: float) -> None:  # noqa: N802  # DALI's name
    """Nothing, as every name for it: JAX and NumPy own the memory, there is nothing to tune."""


PreallocateDeviceMemory = PreallocatePinnedMemory = ReleaseUnusedMemory
SetBufferGrowthFactor = SetDeviceBufferGrowthFactor = SetHostBufferGrowthFactor = ReleaseUnusedMemory
SetHostBufferShrinkThreshold = RestrictPinnedMemUsage = ReleaseUnusedMemory


__getattr__ = absent(__name__)
