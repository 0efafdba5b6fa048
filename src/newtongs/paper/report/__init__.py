"""Every table and figure of the paper with one call: ``reproduce("report")``.

A section (``sections/``) measures something and returns tables, figures and sentences; the run
saves each as one JSON file, and the page is made from those files alone.
"""

from ..evaluation.table import Table, Value
from .content import Figure, Section
from .registry import SectionSpec, specs
from .run import reproduce

__all__ = ["Figure", "Section", "SectionSpec", "Table", "Value", "reproduce", "specs"]
