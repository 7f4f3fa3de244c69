from penstock.operators.reductions.min_max import max as max  # noqa: A004  # DALI's name
from penstock.operators.reductions.min_max import min as min  # noqa: A004  # DALI's name
from penstock.operators.reductions.sum_mean import mean as mean
from penstock.operators.reductions.sum_mean import mean_square as mean_square
from penstock.operators.reductions.sum_mean import rms as rms
from penstock.operators.reductions.sum_mean import sum as sum  # noqa: A004  # DALI's name
from penstock.operators.reductions.variance import std_dev as std_dev
from penstock.operators.reductions.variance import variance as variance
