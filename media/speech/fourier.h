/* The discrete Fourier transform of frames of 400 samples. */
#ifndef CLEF_MEDIA_FOURIER_H
#define CLEF_MEDIA_FOURIER_H

enum { CLEF__FOURIER_N = 400 };

/** Roots of unity: cosines and sines of -2 pi k / 400. */
typedef struct clef__fourier {
    double re[CLEF__FOURIER_N], im[CLEF__FOURIER_N];
} clef__fourier;

void clef__fourier_init(clef__fourier *f);
/** The powers |X[k]|^2, k = 0 .. 200, of two real frames, which one complex transform computes: a is its real
 *  part and b its imaginary part. */
void clef__fourier_powers(const clef__fourier *f, const double a[CLEF__FOURIER_N],
                          const double b[CLEF__FOURIER_N], double power_a[CLEF__FOURIER_N / 2 + 1],
                          double power_b[CLEF__FOURIER_N / 2 + 1]);

#endif
