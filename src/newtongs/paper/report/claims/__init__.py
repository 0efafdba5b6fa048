"""The ledger: every testable sentence of the paper, its number, ours, and whether it holds.

``claims.json`` is data: the sentences, formulas for both numbers and for the verdict, and the
contradictions within the paper. Nothing there says how a claim ends; :func:`judged` computes it.
"""

from .evidence import Evidence
from .ledger import Judged, Verdict, as_json, judged
from .pages import Part, parts, verdict

__all__ = ["Evidence", "Judged", "Part", "Verdict", "as_json", "judged", "parts", "verdict"]
