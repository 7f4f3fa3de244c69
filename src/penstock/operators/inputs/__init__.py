"""Operators that receive data from the program: from callables, iterables, or `Pipeline.feed_input`."""
