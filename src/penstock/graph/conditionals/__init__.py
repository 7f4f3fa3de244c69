"""Conditions in definitions: `if`, `and`, `or`, `not` on values of the graph.

A definition is rewritten (`ast_rewrite.py`, `converted_function.py`), so that these call the functions in
`control_flow.py`. They trace both branches, each under a *guard*: a node with a boolean per row, which every node of
the branch carries. A node is computed only for the rows for which its guard is True. The values that the branches
assign to variables are selected row by row (`penstock.graph.ir.branch_operators`).
"""

from penstock.graph.conditionals.converted_function import convert_function as convert_function
from penstock.graph.conditionals.converted_function import definition_with_conditionals as definition_with_conditionals
from penstock.graph.conditionals.converted_function import do_not_convert as do_not_convert
from penstock.graph.conditionals.converted_function import has_conditionals as has_conditionals
