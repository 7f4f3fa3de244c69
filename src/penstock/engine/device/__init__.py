"""Nodes placed on the device, traced into one jitted, sharded function."""
