"""Uses of operators, by family: each module has `CASES`, a list of uses per operator."""
