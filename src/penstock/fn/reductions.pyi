from penstock.operators.reductions.extremes import max as max  # noqa: A004  # DALI's name
from penstock.operators.reductions.extremes import min as min  # noqa: A004  # DALI's name
from penstock.operators.reductions.spread import std_dev as std_dev
from penstock.operators.reductions.spread import variance as variance
from penstock.operators.reductions.sums import mean as mean
from penstock.operators.reductions.sums import mean_square as mean_square
from penstock.operators.reductions.sums import rms as rms
from penstock.operators.reductions.sums import sum as sum  # noqa: A004  # DALI's name
