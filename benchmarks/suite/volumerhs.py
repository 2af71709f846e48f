"""The volume term of a discontinuous-Galerkin compressible-Euler solver: order 4, 5 by 5 threads an element.

The same algorithm as ``volumerhs.cu``.  Arrays are C-ordered: (element, field, k, j, i).  The C++ has the extents as
constants; here the kernel may begin with an assertion of them, which the compiler then relies on.
"""

from __future__ import annotations

import numpy as np

import sterna

NQ, NSTATE, NVGEO = 5, 5, 14
XIX, ETAX, ZETAX, XIY, ETAY, ZETAY, XIZ, ETAZ, ZETAZ, MJ_, MJI_, X_, Y_, Z_ = range(NVGEO)
RHO, U_, V_, W_, E_ = range(NSTATE)
GDM1 = np.float32(0.4)


def volumerhs(rhs, q, vgeo, gravity, d, shapes):
    """One block an element; `shapes` is ``"asserted"`` or ``"any"``."""
    if shapes == "asserted":
        assert rhs.shape[1:] == (NSTATE, NQ, NQ, NQ)
        assert q.shape[1:] == (NSTATE, NQ, NQ, NQ)
        assert vgeo.shape[1:] == (NVGEO, NQ, NQ, NQ)
        assert d.shape == (NQ, NQ)
    s_d = sterna.shared.array((NQ, NQ), np.float32)
    s_f = sterna.shared.array((NSTATE, NQ, NQ), np.float32)
    s_g = sterna.shared.array((NSTATE, NQ, NQ), np.float32)
    r = sterna.local.array((NSTATE, NQ), np.float32)
    e = sterna.blockIdx.x
    j = sterna.threadIdx.y
    i = sterna.threadIdx.x
    for k in range(NQ):
        for s in range(NSTATE):
            r[s, k] = 0
    s_d[j, i] = d[j, i]
    for k in range(NQ):
        sterna.syncthreads()
        mj = vgeo[e, MJ_, k, j, i]
        xix, xiy, xiz = vgeo[e, XIX, k, j, i], vgeo[e, XIY, k, j, i], vgeo[e, XIZ, k, j, i]
        etax, etay, etaz = vgeo[e, ETAX, k, j, i], vgeo[e, ETAY, k, j, i], vgeo[e, ETAZ, k, j, i]
        zetax, zetay, zetaz = vgeo[e, ZETAX, k, j, i], vgeo[e, ZETAY, k, j, i], vgeo[e, ZETAZ, k, j, i]
        z = vgeo[e, Z_, k, j, i]
        rho, u, v, w, en = (
            q[e, RHO, k, j, i],
            q[e, U_, k, j, i],
            q[e, V_, k, j, i],
            q[e, W_, k, j, i],
            q[e, E_, k, j, i],
        )
        p = GDM1 * (en - (u * u + v * v + w * w) / (2 * rho) - rho * gravity * z)
        inv = 1 / rho
        fx = (u, inv * u * u + p, inv * u * v, inv * u * w, inv * u * (en + p))
        fy = (v, inv * v * u, inv * v * v + p, inv * v * w, inv * v * (en + p))
        fz = (w, inv * w * u, inv * w * v, inv * w * w + p, inv * w * (en + p))
        s_f[0, j, i] = mj * (xix * fx[0] + xiy * fy[0] + xiz * fz[0])
        s_f[1, j, i] = mj * (xix * fx[1] + xiy * fy[1] + xiz * fz[1])
        s_f[2, j, i] = mj * (xix * fx[2] + xiy * fy[2] + xiz * fz[2])
        s_f[3, j, i] = mj * (xix * fx[3] + xiy * fy[3] + xiz * fz[3])
        s_f[4, j, i] = mj * (xix * fx[4] + xiy * fy[4] + xiz * fz[4])
        s_g[0, j, i] = mj * (etax * fx[0] + etay * fy[0] + etaz * fz[0])
        s_g[1, j, i] = mj * (etax * fx[1] + etay * fy[1] + etaz * fz[1])
        s_g[2, j, i] = mj * (etax * fx[2] + etay * fy[2] + etaz * fz[2])
        s_g[3, j, i] = mj * (etax * fx[3] + etay * fy[3] + etaz * fz[3])
        s_g[4, j, i] = mj * (etax * fx[4] + etay * fy[4] + etaz * fz[4])
        h0 = mj * (zetax * fx[0] + zetay * fy[0] + zetaz * fz[0])
        h1 = mj * (zetax * fx[1] + zetay * fy[1] + zetaz * fz[1])
        h2 = mj * (zetax * fx[2] + zetay * fy[2] + zetaz * fz[2])
        h3 = mj * (zetax * fx[3] + zetay * fy[3] + zetaz * fz[3])
        h4 = mj * (zetax * fx[4] + zetay * fy[4] + zetaz * fz[4])
        for n in range(NQ):
            dkn = s_d[n, k]
            r[0, n] += dkn * h0
            r[1, n] += dkn * h1
            r[2, n] += dkn * h2
            r[3, n] += dkn * h3
            r[4, n] += dkn * h4
        r[W_, k] -= mj * rho * gravity
        sterna.syncthreads()
        for n in range(NQ):
            dni = s_d[i, n]
            dnj = s_d[j, n]
            for s in range(NSTATE):
                r[s, k] += dni * s_f[s, j, n]
                r[s, k] += dnj * s_g[s, n, i]
    for k in range(NQ):
        mji = vgeo[e, MJI_, k, j, i]
        for s in range(NSTATE):
            rhs[e, s, k, j, i] += mji * r[s, k]


def inputs(elements: int, seed: int = 1) -> tuple[np.ndarray, ...]:
    """rhs, q, vgeo, gravity, d on the host."""
    rng = np.random.default_rng(seed)
    rhs = np.zeros((elements, NSTATE, NQ, NQ, NQ), np.float32)
    q = 1 + rng.random((elements, NSTATE, NQ, NQ, NQ), np.float32)
    vgeo = rng.random((elements, NVGEO, NQ, NQ, NQ), np.float32)
    return rhs, q, vgeo, np.float32(9.81), rng.random((NQ, NQ), np.float32)
