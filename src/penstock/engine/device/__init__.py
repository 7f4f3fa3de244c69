"""The device part of a plan as one jitted, sharded function."""
