"""Training on many devices with a step that was written for one.

>>> from penstock import train
>>> train.data_mesh().axis_names
('batch',)
"""

from penstock.train.array_batches import batches as batches
from penstock.train.callbacks import Evaluate as Evaluate
from penstock.train.callbacks import Progress as Progress
from penstock.train.callbacks import StopOnNaN as StopOnNaN
from penstock.train.callbacks import StopOnSignal as StopOnSignal
from penstock.train.checkpoint import Checkpoint as Checkpoint
from penstock.train.device_placement import batch_sharding as batch_sharding
from penstock.train.device_placement import data_mesh as data_mesh
from penstock.train.device_placement import replicate as replicate
from penstock.train.device_placement import replicated_sharding as replicated_sharding
from penstock.train.device_placement import stack as stack
from penstock.train.device_placement import unreplicate as unreplicate
from penstock.train.device_placement import unstack as unstack
from penstock.train.evaluation import evaluate as evaluate
from penstock.train.history import History as History
from penstock.train.parallel_step import data_parallel as data_parallel
from penstock.train.stall_monitor import Watch as Watch
from penstock.train.train_loop import Callback as Callback
from penstock.train.train_loop import Loop as Loop
from penstock.train.train_loop import fit as fit
