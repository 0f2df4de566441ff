"""A leap along the way that β has come: what is left of a drift, taken in one step.

Coordinate steps in the end push β along directions in which D is nearly flat, a little further each sweep. The way s = β − β₀ over a few
sweeps points there, and so do v − v₀, so that a line search costs no pass over the data:

    D(β + ts) = Σ cᵢ ψ(βᵢ + tsᵢ) − (l2/2)‖v + t(v − v₀)‖²

With a free intercept D is what the steps raise: the bias column's part of v is among the squares, and its centre b tilts D by −b Σ cβy,
where Σ cβy is l2/scale times that part of v.

Rows at an end of their domain stay there, and those that would pass one stop at it; v is put right for both, row by row. A leap that
does not raise D is not taken.
"""

from __future__ import annotations

from dualgap.core import kernel

__all__ = ["leap"]

FURTHEST = 1e3  # times the way that β has come: beyond, the rounding of v − v₀ would be what moves v
ROUNDING = 1e-12  # part of l2·‖v‖² below which a rise of D may be rounding, and the leap unsettles the margins for nothing


@kernel
def leap(rows, loss, at, beta, v, l2, tilt, beta_from, v_from):
    """Move (β, v) beyond where it is, as seen from (beta_from, v_from), which are used up; returns by how much D rises, or 0.

    `tilt` is what D falls by with a unit of v's last number, besides its square: b·l2/scale with a free intercept, else 0.
    """
    n, d, top = beta.shape[0], v.shape[0], loss.upper_bound()
    rise, curvature = 0.0, 0.0
    for i in range(n):
        s = beta[i] - beta_from[i]
        if s == 0.0:
            continue
        if 0.0 < beta[i] < top:
            c = abs(at.step[i]) * l2
            rise += c * s * loss.gradient(beta[i], 0.0)
            curvature += c * s * s * (1.0 / loss.curvature_at(beta[i], 1.0) - 1.0)
        else:
            rows.add(i, s * at.step[i], v_from)  # arrived at a bound: no part of the direction
            beta_from[i] = beta[i]
    along, square, size = 0.0, 0.0, 0.0
    for j in range(d):
        step = v[j] - v_from[j]
        along += v[j] * step
        square += step * step
        size += v[j] * v[j]
    rise -= l2 * along + tilt * (v[d - 1] - v_from[d - 1])
    curvature += l2 * square
    if not (rise > 0.0 and curvature > 0.0):
        return 0.0
    t = min(rise / curvature, FURTHEST)
    for j in range(d):
        v_from[j] = v[j] + t * (v[j] - v_from[j])
    gain = 0.0
    for i in range(n):
        s = beta[i] - beta_from[i]
        if s == 0.0:
            continue
        wanted = beta[i] + t * s
        new = min(top, max(0.0, wanted))
        if new != wanted:
            rows.add(i, (new - wanted) * at.step[i], v_from)
        gain += abs(at.step[i]) * l2 * (loss.psi(new) - loss.psi(beta[i]))
        beta_from[i] = new
    gain -= tilt * (v_from[d - 1] - v[d - 1])
    for j in range(d):
        gain -= 0.5 * l2 * (v_from[j] - v[j]) * (v_from[j] + v[j])
    if not gain > ROUNDING * l2 * size:
        return 0.0
    for i in range(n):  # loops: to compile a copy of arrays takes numba seconds
        beta[i] = beta_from[i]
    for j in range(d):
        v[j] = v_from[j]
    return gain
