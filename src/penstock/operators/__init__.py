"""One file per operator, named as DALI names it, in a folder per family."""
