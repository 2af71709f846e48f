// The volume term of a discontinuous-Galerkin compressible-Euler solver: order 4, 5 by 5 threads an element.
// The same algorithm as suite/volumerhs.py, for nvcc.
#define NQ 5
#define POINTS 125
#define GDM1 0.4f

enum { XIX, ETAX, ZETAX, XIY, ETAY, ZETAY, XIZ, ETAZ, ZETAZ, MJ_, MJI_, X_, Y_, Z_, NVGEO };
enum { RHO, U_, V_, W_, E_, NSTATE };

extern "C" __global__ void __launch_bounds__(25)
volumerhs(float *__restrict__ rhs, const float *__restrict__ Q, const float *__restrict__ vgeo, float gravity,
          const float *__restrict__ D)
{
    __shared__ float s_D[NQ][NQ];
    __shared__ float s_F[NSTATE][NQ][NQ];
    __shared__ float s_G[NSTATE][NQ][NQ];
    float r[NSTATE][NQ];
    const int e = blockIdx.x, j = threadIdx.y, i = threadIdx.x;
    #pragma unroll
    for (int k = 0; k < NQ; ++k)
        for (int s = 0; s < NSTATE; ++s)
            r[s][k] = 0.f;
    s_D[j][i] = D[j * NQ + i];
    #pragma unroll
    for (int k = 0; k < NQ; ++k) {
        __syncthreads();
        const float *g = vgeo + (size_t)e * NVGEO * POINTS + k * 25 + j * 5 + i;
        const float *q = Q + (size_t)e * NSTATE * POINTS + k * 25 + j * 5 + i;
        const float MJ = g[MJ_ * POINTS];
        const float xix = g[XIX * POINTS], xiy = g[XIY * POINTS], xiz = g[XIZ * POINTS];
        const float etax = g[ETAX * POINTS], etay = g[ETAY * POINTS], etaz = g[ETAZ * POINTS];
        const float zetax = g[ZETAX * POINTS], zetay = g[ZETAY * POINTS], zetaz = g[ZETAZ * POINTS];
        const float z = g[Z_ * POINTS];
        const float rho = q[RHO * POINTS], U = q[U_ * POINTS], V = q[V_ * POINTS], W = q[W_ * POINTS], E = q[E_ * POINTS];
        const float P = GDM1 * (E - (U * U + V * V + W * W) / (2.f * rho) - rho * gravity * z);
        const float inv = 1.f / rho;
        const float fx[NSTATE] = {U, inv * U * U + P, inv * U * V, inv * U * W, inv * U * (E + P)};
        const float fy[NSTATE] = {V, inv * V * U, inv * V * V + P, inv * V * W, inv * V * (E + P)};
        const float fz[NSTATE] = {W, inv * W * U, inv * W * V, inv * W * W + P, inv * W * (E + P)};
        float h[NSTATE];
        #pragma unroll
        for (int s = 0; s < NSTATE; ++s) {
            s_F[s][j][i] = MJ * (xix * fx[s] + xiy * fy[s] + xiz * fz[s]);
            s_G[s][j][i] = MJ * (etax * fx[s] + etay * fy[s] + etaz * fz[s]);
            h[s] = MJ * (zetax * fx[s] + zetay * fy[s] + zetaz * fz[s]);
        }
        #pragma unroll
        for (int n = 0; n < NQ; ++n) {
            const float Dkn = s_D[n][k];
            #pragma unroll
            for (int s = 0; s < NSTATE; ++s)
                r[s][n] += Dkn * h[s];
        }
        r[W_][k] -= MJ * rho * gravity;
        __syncthreads();
        #pragma unroll
        for (int n = 0; n < NQ; ++n) {
            const float Dni = s_D[i][n], Dnj = s_D[j][n];
            #pragma unroll
            for (int s = 0; s < NSTATE; ++s) {
                r[s][k] += Dni * s_F[s][j][n];
                r[s][k] += Dnj * s_G[s][n][i];
            }
        }
    }
    #pragma unroll
    for (int k = 0; k < NQ; ++k) {
        const float MJI = vgeo[(size_t)e * NVGEO * POINTS + MJI_ * POINTS + k * 25 + j * 5 + i];
        float *out = rhs + (size_t)e * NSTATE * POINTS + k * 25 + j * 5 + i;
        #pragma unroll
        for (int s = 0; s < NSTATE; ++s)
            out[s * POINTS] += MJI * r[s][k];
    }
}
