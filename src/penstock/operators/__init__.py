"""Operators, one file per operator or close family. They know the operator contract, and nothing of the engine."""
