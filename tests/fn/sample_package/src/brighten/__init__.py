"""Sample of a package that adds an operator and a reader to Penstock."""
