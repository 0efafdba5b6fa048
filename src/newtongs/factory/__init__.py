"""Labelled films by the thousand: ``newtongs factory``."""

from .spec import Spec, load_spec

__all__ = ["Spec", "load_spec"]
