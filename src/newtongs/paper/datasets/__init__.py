"""Benchmarks on disk: build, manifest, load."""
