/* A transform of 400 = 2^4 5^2 points by decimation in time: the points i, i + r, i + 2r .. of each residue
 * are transformed alone, then joined. */
#include "media/speech/fourier.h"

#include <math.h>
#include <string.h>

enum { N = CLEF__FOURIER_N };

typedef struct complex_number {
    double re, im;
} complex_number;

void clef__fourier_init(clef__fourier *f)
{
    const double pi = 3.14159265358979323846;
    for (int k = 0; k < N; k++) {
        f->re[k] = cos(-2 * pi * k / N);
        f->im[k] = sin(-2 * pi * k / N);
    }
}

static complex_number rotated(const clef__fourier *f, complex_number x, int k)
{
    return (complex_number){x.re * f->re[k] - x.im * f->im[k], x.re * f->im[k] + x.im * f->re[k]};
}

/* out[k + j n / r] = sum over q of part q's [k], turned by q (k + j n / r) of n. */
static void join(const clef__fourier *f, complex_number *out, int n, int r)
{
    const int part = n / r, step = N / n;
    complex_number old[5];
    for (int k = 0; k < part; k++) {
        for (int q = 0; q < r; q++)
            old[q] = rotated(f, out[q * part + k], q * k * step);
        for (int j = 0; j < r; j++) {
            complex_number sum = old[0];
            for (int q = 1; q < r; q++) {
                const complex_number x = rotated(f, old[q], q * j % r * (N / r));
                sum.re += x.re;
                sum.im += x.im;
            }
            out[k + j * part] = sum;
        }
    }
}

/* The transform of the n points in[0], in[stride] .. */
static void transform(const clef__fourier *f, const complex_number *in, int stride, int n,
                      complex_number *out)
{
    const int r = n % 2 == 0 ? 2 : 5;
    if (n == 1) {
        *out = *in;
        return;
    }
    for (int q = 0; q < r; q++)
        transform(f, in + q * stride, stride * r, n / r, out + q * (n / r));
    join(f, out, n, r);
}

void clef__fourier_powers(const clef__fourier *f, const double a[N], const double b[N],
                          double power_a[N / 2 + 1], double power_b[N / 2 + 1])
{
    complex_number in[N], out[N];
    for (int i = 0; i < N; i++)
        in[i] = (complex_number){a[i], b[i]};
    transform(f, in, 1, N, out);
    for (int k = 0; k <= N / 2; k++) { /* a's part is symmetric, b's antisymmetric */
        const complex_number x = out[k], y = out[(N - k) % N];
        const double a_re = (x.re + y.re) / 2, a_im = (x.im - y.im) / 2;
        const double b_re = (x.im + y.im) / 2, b_im = (y.re - x.re) / 2;
        power_a[k] = a_re * a_re + a_im * a_im;
        power_b[k] = b_re * b_re + b_im * b_im;
    }
}
