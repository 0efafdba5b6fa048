"""Foundations: errors, types, rotations, the 22-number state, files, locks, processes."""
