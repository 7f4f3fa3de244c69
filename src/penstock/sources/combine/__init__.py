"""Sources that wrap other sources: subsets, concatenations and sample names."""
