"""Data-parallel training with a step written for one device.

>>> from penstock import train
>>> train.data_mesh().axis_names
('batch',)
"""

from penstock.train.array_batches import batches as batches
from penstock.train.callbacks import Evaluate as Evaluate
from penstock.train.callbacks import ProgressBar as ProgressBar
from penstock.train.callbacks import StopOnSignal as StopOnSignal
from penstock.train.callbacks import TerminateOnNaN as TerminateOnNaN
from penstock.train.checkpoint import Checkpoint as Checkpoint
from penstock.train.device_placement import batch_sharding as batch_sharding
from penstock.train.device_placement import data_mesh as data_mesh
from penstock.train.device_placement import replicate as replicate
from penstock.train.device_placement import replicate_for_pmap as replicate_for_pmap
from penstock.train.device_placement import replicated_sharding as replicated_sharding
from penstock.train.device_placement import unreplicate as unreplicate
from penstock.train.device_placement import unreplicate_from_pmap as unreplicate_from_pmap
from penstock.train.evaluation import evaluate as evaluate
from penstock.train.history import History as History
from penstock.train.parallel_step import data_parallel as data_parallel
from penstock.train.stall_monitor import StallMonitor as StallMonitor
from penstock.train.train_loop import Callback as Callback
from penstock.train.train_loop import TrainLoop as TrainLoop
from penstock.train.train_loop import fit as fit

__all__ = [
    "Callback",
    "Checkpoint",
    "Evaluate",
    "History",
    "ProgressBar",
    "StallMonitor",
    "StopOnSignal",
    "TerminateOnNaN",
    "TrainLoop",
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
