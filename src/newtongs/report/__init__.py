"""Every table and figure of the paper by one call: ``reproduce("report")``.

A section (``sections/``) measures something and returns tables, figures and sentences; the run
keeps each as one JSON file, and the page is made from those files alone.
"""

from .content import Figure, Section, Table, Value
from .registry import Spec, specs
from .run import reproduce

__all__ = ["Figure", "Section", "Spec", "Table", "Value", "reproduce", "specs"]
