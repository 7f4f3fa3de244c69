"""Training on many devices with a step that was written for one.

>>> from penstock import train
>>> train.data_mesh().axis_names
('batch',)
"""

from penstock.train.callbacks import Evaluate as Evaluate
from penstock.train.callbacks import Progress as Progress
from penstock.train.callbacks import StopOnNaN as StopOnNaN
from penstock.train.callbacks import StopOnSignal as StopOnSignal
from penstock.train.checkpoint import Checkpoint as Checkpoint
from penstock.train.evaluation import evaluate as evaluate
from penstock.train.history import History as History
from penstock.train.loop import Callback as Callback
from penstock.train.loop import Loop as Loop
from penstock.train.loop import fit as fit
from penstock.train.memory import batches as batches
from penstock.train.parallel import data_parallel as data_parallel
from penstock.train.placement import batch_sharding as batch_sharding
from penstock.train.placement import data_mesh as data_mesh
from penstock.train.placement import replicate as replicate
from penstock.train.placement import replicated_sharding as replicated_sharding
from penstock.train.placement import stack as stack
from penstock.train.placement import unreplicate as unreplicate
from penstock.train.placement import unstack as unstack
from penstock.train.watch import Watch as Watch
