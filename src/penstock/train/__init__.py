"""Data-parallel training with a step written for one device.

>>> from penstock import train
>>> train.data_mesh().axis_names
('batch',)
"""

from penstock.train.array_batches import batches
from penstock.train.callbacks import Evaluate, StopOnSignal, TerminateOnNaN
from penstock.train.checkpoint import Checkpoint
from penstock.train.early_stopping import EarlyStopping
from penstock.train.evaluation import evaluate
from penstock.train.gradient_accumulation import accumulate_gradients
from penstock.train.history import History
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
from penstock.train.stall_monitor import StallMonitor
from penstock.train.train_loop import Callback, TrainLoop, fit

__all__ = [
    "CSVLogger",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "Evaluate",
    "History",
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
    "unreplicate",
    "unreplicate_from_pmap",
]
