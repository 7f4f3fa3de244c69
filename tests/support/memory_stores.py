"""Ends of the stores in memory that caches of a process share."""

import gc
import threading
import weakref


def end_event(store):
    """Return an event that is set when nothing uses the store anymore."""
    event = threading.Event()
    weakref.finalize(store, event.set)
    return event


def ends(event):
    """Wait for the event, and before it for tasks of a dropped program, which end in threads of penstock and JAX."""
    for _ in range(600):
        gc.collect()
        if event.wait(0.1):
            return True
    return False
