"""How well predictions agree with measurements: the order, and the errors."""

import math
import statistics


def ranks(values):
    """1 for the smallest and so on; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    out = [0.0] * len(values)
    i = 0
    while i < len(order):
        j = i
        while j + 1 < len(order) and values[order[j + 1]] == values[order[i]]:
            j += 1
        for k in range(i, j + 1):
            out[order[k]] = (i + j) / 2 + 1
        i = j + 1
    return out


def spearman(a, b):
    x, y = ranks(a), ranks(b)
    mx, my = statistics.mean(x), statistics.mean(y)
    top = sum((p - mx) * (q - my) for p, q in zip(x, y))
    below = math.sqrt(sum((p - mx) ** 2 for p in x) * sum((q - my) ** 2 for q in y))
    return top / below if below else 0.0


def errors(measured, predicted):
    return [abs(p / m - 1) for m, p in zip(measured, predicted)]


def pairs_in_order(measured, predicted, factor):
    """Of the pairs whose predictions differ by more than the factor: (how many are in the order that was measured, how many)."""
    right = n = 0
    for i in range(len(measured)):
        for j in range(i):
            low, high = sorted((predicted[i], predicted[j]))
            if high > low * factor:
                n += 1
                right += (measured[i] > measured[j]) == (predicted[i] > predicted[j])
    return right, n
