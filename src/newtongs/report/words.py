"""Sentences about figures: how near they are to the paper's, and which are not."""

from collections.abc import Iterable, Sequence

from .content import Value

NEAR = 0.5  # percent
CLEAR = 3.0  # standard errors beyond which two draws do not explain a difference

Named = tuple[str, Value]


def within(values: Iterable[Named], what: str, near: float = NEAR) -> str:
    """How many figures lie within ``near`` percent of the paper's, and which is farthest."""
    known = [(name, x, x.percent) for name, x in values if x.percent is not None]
    inside = sum(abs(p) <= near for _, _, p in known)
    name, _, worst = max(known, key=lambda row: abs(row[2]))
    return (
        f"{inside} of {len(known)} {what} lie within {near:g} % of the paper's; "
        f"the farthest is {name} with {worst:+.2f} %."
    )


def unexplained(values: Iterable[Named], why: str) -> list[str]:
    """A sentence on figures that differ by more than the two draws explain; none if none does."""
    known = [(name, x) for name, x in values if x.errors is not None]
    if not known:
        return []
    far = [(name, x) for name, x in known if (x.errors or 0) > CLEAR]
    if not far:
        return [
            f"All {len(known)} differences are within {CLEAR:g} standard errors: the paper's draw "
            "and ours are different random draws of the same families, and that explains them."
        ]
    return [
        f"{len(known) - len(far)} of {len(known)} differences are within {CLEAR:g} standard "
        f"errors of two random draws. The others: {_listed(far)}. {why}"
    ]


def _listed(far: Sequence[Named], most: int = 8) -> str:
    far = sorted(far, key=lambda row: -(row[1].errors or 0))
    parts = [f"{name} ({_signed(x)}, {x.errors:.1f} standard errors)" for name, x in far[:most]]
    rest = len(far) - most
    return "; ".join(parts) + (f"; and {rest} more in the table" if rest > 0 else "")


def _signed(x: Value) -> str:
    assert x.paper is not None
    if x.unit == "%":  # a percentage of percentages would mislead
        return f"{x.ours - x.paper:+.2f} points"
    return f"{x.percent:+.2f} %"
