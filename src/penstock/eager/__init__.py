"""Eager execution: operators that compute as they are called, on arrays, lists of arrays and batches."""

from penstock.eager.batch import Batch as Batch
from penstock.eager.generator import Generator as Generator
