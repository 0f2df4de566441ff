"""Certificate: how far from optimal a model is at most; CertificateError. Their numbers come from `enclosure` and `certified`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dualgap.core import round_up
from dualgap.proof.enclosure import Enclosed

__all__ = ["Certificate", "CertificateError", "certificate_of", "certificate_of_pair"]


class CertificateError(ArithmeticError):
    """A proof that cannot be: the kernel matrix is not positive semidefinite, or an upper bound is below a lower one, which is a bug.

    Examples
    --------
    >>> import dualgap
    >>> issubclass(dualgap.CertificateError, ArithmeticError)
    True
    """


@dataclass(frozen=True)
class Certificate:
    """A proof of how good a model is: its objective is at most `gap` above the best possible one. Rounding is accounted for.

    The objective of a ν-problem is negative; there relative gaps are relative to its size.

    Attributes
    ----------
    primal : an upper bound of P(w, b), the model's objective
    dual : a lower bound on every model's objective
    source : where the bound's β came from: "solver", "margins", "given" or "ascent"
    radius : how much of the gap may be rounding: the exact gap lies between gap − 2·radius and gap
    pair_gap : a bound on the gap of this model and this β, computed directly; sharper than primal − dual where rounding matters

    Examples
    --------
    >>> from dualgap import Certificate
    >>> c = Certificate(primal=0.5, dual=0.4995, source="solver")
    >>> print(c)
    primal 0.5, dual 0.4995, gap 5.0e-04: at most 0.1 % above the optimum (bound from solver)
    """

    primal: float
    dual: float
    source: str
    radius: float = 0.0
    pair_gap: float = math.inf

    @property
    def gap(self) -> float:
        """At least the model's distance from the optimum: primal − dual, rounded up, or `pair_gap` if that is less."""
        difference = self.primal - self.dual
        return min(math.nextafter(difference, math.inf) if difference > 0.0 else abs(difference), self.pair_gap)

    @property
    def relative_gap(self) -> float:
        """gap / |primal|, rounded up: at least the exact gap divided by the exact objective's size. Infinite where that has no bound."""
        gap = self.gap
        if gap == 0.0:
            return 0.0
        if self.primal < 0.0:  # the exact objective is at most `primal`, so that its size is at least that of `primal`
            return round_up(gap / -self.primal)
        # (P − D)/P = 1 − D/P grows with P where D ≥ 0, and falls where D < 0. A gap that was computed directly belongs to the exact P.
        least = self.primal if self.dual >= 0.0 and self.pair_gap == math.inf else self.primal - 2.0 * self.radius
        return round_up(gap / least) if 0.0 < least < math.inf else math.inf

    def within(self, tol: float, atol: float = 0.0) -> bool:
        """Whether the relative gap is at most `tol`, or the gap at most `atol`. A run has converged if its certificate is."""
        return self.relative_gap <= tol or self.gap <= atol

    def __str__(self) -> str:
        # A gap of g means that primal ≤ optimum + g, and the optimum is at least `dual`.
        above = f"{100 * self.gap / self.dual:.3g} % above the optimum" if self.dual > 0 else f"{self.gap:.2g} above the optimum"
        if self.primal < 0.0:
            above = f"{100 * self.relative_gap:.3g} % of its size above the optimum"
        return f"primal {self.primal:.8g}, dual {self.dual:.8g}, gap {self.gap:.1e}: at most {above} (bound from {self.source})"

    def _repr_html_(self) -> str:
        """Return the certificate as notebooks show it."""
        shown = {
            "primal": f"{self.primal:.8g}",
            "dual": f"{self.dual:.8g}",
            "gap": f"{self.gap:.1e}",
            "relative gap": f"{self.relative_gap:.1e}",
        }
        cells = "".join(f"<tr><th style='text-align:left'>{name}</th><td>{value}</td></tr>" for name, value in shown.items())
        return f"<table><caption>at most {100 * self.relative_gap:.3g} % of the objective from optimal</caption>{cells}</table>"


def certificate_of(primal: float, dual: float, source: str, radius: float = 0.0, pair_gap: float = math.inf) -> Certificate:
    """Make a certificate from an upper and a lower bound; raise CertificateError where they contradict each other."""
    if primal < dual:
        raise CertificateError(
            f"the model's objective is at most {primal!r}, and no objective is below {dual!r}: one of the two is wrong. A kernel matrix "
            "that is not positive semidefinite does this; without a kernel it is a bug, please report it with the data"
        )
    return Certificate(float(primal), float(dual), source, float(radius), float(pair_gap))


def certificate_of_pair(enclosed: Enclosed, source: str) -> Certificate:
    """Make the certificate of a model and a dual point from the enclosure of the two."""
    return certificate_of(enclosed.upper, enclosed.dual, source, enclosed.radius, enclosed.gap_bound)
