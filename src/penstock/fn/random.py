"""Operators that draw random numbers."""

from penstock.graph.registry import missing
from penstock.ops.random_coin_flip import coin_flip as coin_flip
from penstock.ops.random_keys import keys as keys
from penstock.ops.random_normal import normal as normal
from penstock.ops.random_uniform import uniform as uniform

__getattr__ = missing(__name__)
