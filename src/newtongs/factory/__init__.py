"""Labelled films by the thousand: ``newtongs factory``.

Read in this order: ``spec`` (what is asked), ``scenes`` and ``casts`` (what is prepared once per
scene), ``draws`` (what is random per film), ``film`` (its physics), ``labels`` and ``sample`` (its
pictures and files), ``shards`` (tar files and index), ``pool`` or ``cluster`` (who makes them), and
``run``, which puts them together.
"""

from .spec import Spec, load_spec

__all__ = ["Spec", "load_spec"]
