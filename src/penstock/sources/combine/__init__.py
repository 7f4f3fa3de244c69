"""Sources made of other sources: subsets, concatenations, names of samples."""
