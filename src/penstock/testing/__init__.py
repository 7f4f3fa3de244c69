"""The contracts as checks: what every operator, source and iterator must pass, those of other packages included."""

from penstock.testing.iterators import check_iterator as check_iterator
from penstock.testing.operators import OperatorCase as OperatorCase
from penstock.testing.operators import check_docstring as check_docstring
from penstock.testing.operators import check_operator as check_operator
from penstock.testing.sources import ListSource as ListSource
from penstock.testing.sources import check_bad_samples as check_bad_samples
from penstock.testing.sources import check_source as check_source
