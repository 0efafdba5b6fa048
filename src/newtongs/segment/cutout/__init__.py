"""Extracting an object from a capture: complete it, cut it off its support, repair the hole."""
