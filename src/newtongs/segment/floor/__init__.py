"""The up direction and the floor of a capture."""
