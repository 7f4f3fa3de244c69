"""Data-parallel training with a step written for one device.

>>> from penstock import train
>>> train.data_mesh().axis_names
('batch',)
"""

from typing import TYPE_CHECKING, Any

from penstock.train.array_batches import batches
from penstock.train.callbacks import Evaluate, StopOnSignal, TerminateOnNaN
from penstock.train.checkpoint import Checkpoint
from penstock.train.early_stopping import EarlyStopping
from penstock.train.evaluation import evaluate
from penstock.train.gradient_accumulation import accumulate_gradients
from penstock.train.history import History
from penstock.train.iterator_checkpoint_handler import IteratorCheckpointHandler, args_classes
from penstock.train.log_metrics import LogMetrics
from penstock.train.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from penstock.train.parallel_step import data_parallel
from penstock.train.progress import ProgressBar
from penstock.train.replication import (
    batch_sharding,
    data_mesh,
    replicate,
    replicate_for_pmap,
    replicated_sharding,
    unreplicate,
    unreplicate_from_pmap,
)
from penstock.train.restore_weights import restore_weights
from penstock.train.stall_monitor import StallMonitor
from penstock.train.train_loop import Callback, TrainLoop, fit

__all__ = [
    "CSVLogger",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "Evaluate",
    "History",
    "IteratorCheckpointHandler",
    "LogMetrics",
    "Logger",
    "ProgressBar",
    "StallMonitor",
    "StopOnSignal",
    "TensorBoardLogger",
    "TerminateOnNaN",
    "TrainLoop",
    "WandbLogger",
    "accumulate_gradients",
    "batch_sharding",
    "batches",
    "data_mesh",
    "data_parallel",
    "evaluate",
    "fit",
    "replicate",
    "replicate_for_pmap",
    "replicated_sharding",
    "restore_weights",
    "unreplicate",
    "unreplicate_from_pmap",
]

if TYPE_CHECKING:
    from penstock.train.iterator_checkpoint_handler import IteratorRestore as IteratorRestore
    from penstock.train.iterator_checkpoint_handler import IteratorSave as IteratorSave


# Not in `__all__`: `from penstock.train import *` must work without Orbax, from whose classes these derive.
def __getattr__(name: str) -> Any:
    if name in ("IteratorRestore", "IteratorSave"):
        return args_classes()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "IteratorRestore", "IteratorSave"])
