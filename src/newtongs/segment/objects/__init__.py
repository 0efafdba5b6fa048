"""The objects of a capture: clusters, selections, and what a ray hits."""
