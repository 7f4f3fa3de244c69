"""Training on many devices with a step that was written for one.

>>> from penstock import train
>>> train.data_mesh().axis_names
('batch',)
"""

from penstock.train.evaluation import evaluate as evaluate
from penstock.train.memory import batches as batches
from penstock.train.parallel import data_parallel as data_parallel
from penstock.train.placement import batch_sharding as batch_sharding
from penstock.train.placement import data_mesh as data_mesh
from penstock.train.placement import replicate as replicate
from penstock.train.placement import replicated_sharding as replicated_sharding
from penstock.train.placement import stack as stack
from penstock.train.placement import unreplicate as unreplicate
from penstock.train.placement import unstack as unstack
