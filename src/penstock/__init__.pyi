# Public names for type checkers, which cannot see names that load on first use.

from penstock import backend as backend
from penstock import backend_impl as backend_impl
from penstock import data_node as data_node
from penstock import dynamic as dynamic
from penstock import errors as errors
from penstock import experimental as experimental
from penstock import extend as extend
from penstock import fn as fn
from penstock import math as math
from penstock import ops as ops
from penstock import pipeline as pipeline
from penstock import plugin as plugin
from penstock import tensors as tensors
from penstock import tfrecord as tfrecord
from penstock import train as train
from penstock import types as types
from penstock.diagnose import trace as trace
from penstock.eager import Batch as Batch
from penstock.eager import Generator as Generator
from penstock.iterate import DALIGenericIterator as DALIGenericIterator
from penstock.iterate import DALIGenericPeekableIterator as DALIGenericPeekableIterator
from penstock.iterate import DataIterator as DataIterator
from penstock.iterate import PeekableDataIterator as PeekableDataIterator
from penstock.iterate import data_iterator as data_iterator
from penstock.iterate import peekable_data_iterator as peekable_data_iterator
from penstock.pictures import show as show
from penstock.pipeline import Pipeline as Pipeline
from penstock.pipeline import pipeline_def as pipeline_def
from penstock.types import LastBatchPolicy as LastBatchPolicy
from penstock.types import newaxis as newaxis

__version__: str
