"""The extrapolation step of DCA: a line search along the direction in which β has moved over the last sweeps.

Towards the end, coordinate steps push β along directions in which D is nearly flat, a little further each sweep. The direction
s = β − β₀ over a few sweeps points there. Since v is linear in β, a line search needs no pass over the data:

    D(β + ts) = Σ cᵢ[ψ(βᵢ + tsᵢ) − (βᵢ + tsᵢ)yᵢoᵢ] − (l2/2)‖v + t(v − v₀)‖²        o: the fixed part of a score

1) direction: s = β − β₀ over the free variables; those that have come to a bound stay there
2) line search: t = D'(0)/−D''(0), exact where ψ is quadratic
3) projection: variables that would pass a bound stop at it, and v is put right row by row
4) acceptance: the step is taken only if it raises D

It is the pattern move of Hooke and Jeeves (1961) with a line search. Bertrand and Massias (2021) also extrapolate coordinate descent every
five epochs and keep what improves the objective, but combine several iterates (Anderson acceleration); here there is one direction.

With a free intercept D is what the steps raise: the bias column's part of v is among the squares, and its centre adds −centre·Σ cβy to
D, where Σ cβy is l2/scale times that part of v.
"""

from __future__ import annotations

import math

from dualgap.core import kernel

__all__ = ["extrapolate"]

LARGEST_STEP = 1e3  # largest t: beyond it, v would mainly move by the rounding of v − v₀
ROUNDING = 1e-12  # part of l2·‖v‖² below which a rise of D may be rounding: the step is then not taken


@kernel
def extrapolate(rows, loss, coords, beta, v, l2, centre_weight, beta_from, v_from):
    """Move (β, v) further along the direction from (beta_from, v_from), which are overwritten; return by how much D rises, or 0.

    D has the term −centre_weight·(v's last number); centre_weight is centre·l2/scale with a free intercept, else 0.
    """
    # 1) direction
    n, d, lower, upper = beta.shape[0], v.shape[0], loss.lower_bound(), loss.upper_bound()
    rise, curvature = 0.0, 0.0
    for i in range(n):
        s = beta[i] - beta_from[i]
        if s == 0.0:
            continue
        if loss.is_free(beta[i]):
            c, y = abs(coords.factor[i]) * l2, math.copysign(1.0, coords.factor[i])
            rise += c * s * loss.gradient(beta[i], y * coords.offset.at(i))
            curvature += c * s * s * (1.0 / loss.curvature_at(beta[i], 1.0) - 1.0)
        else:
            rows.add(i, s * coords.factor[i], v_from)  # come to a bound: no part of the direction
            beta_from[i] = beta[i]
    # 2) line search
    along, square, size = 0.0, 0.0, 0.0
    for j in range(d):
        step = v[j] - v_from[j]
        along += v[j] * step
        square += step * step
        size += v[j] * v[j]
    rise -= l2 * along + centre_weight * (v[d - 1] - v_from[d - 1])
    curvature += l2 * square
    if not (rise > 0.0 and curvature > 0.0):
        return 0.0
    t = min(rise / curvature, LARGEST_STEP)
    # 3) projection
    for j in range(d):
        v_from[j] = v[j] + t * (v[j] - v_from[j])
    gain = 0.0
    for i in range(n):
        s = beta[i] - beta_from[i]
        if s == 0.0:
            continue
        wanted = beta[i] + t * s
        new = min(upper, max(lower, wanted))
        if new != wanted:
            rows.add(i, (new - wanted) * coords.factor[i], v_from)
        own = loss.psi(new) - loss.psi(beta[i])
        gain += l2 * (abs(coords.factor[i]) * own - coords.factor[i] * coords.offset.at(i) * (new - beta[i]))
        beta_from[i] = new
    gain -= centre_weight * (v_from[d - 1] - v[d - 1])
    for j in range(d):
        gain -= 0.5 * l2 * (v_from[j] - v[j]) * (v_from[j] + v[j])
    # 4) acceptance
    if not gain > ROUNDING * l2 * size:
        return 0.0
    for i in range(n):  # loops: to compile a copy of arrays takes numba seconds
        beta[i] = beta_from[i]
    for j in range(d):
        v[j] = v_from[j]
    return gain
