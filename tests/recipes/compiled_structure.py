import numba

from maxmargin.structured import native_signature


@numba.cfunc(native_signature())
def three_classes(reals, integers, block, weights, indices, values, loss):
    p, truth = integers[0], integers[1 + block]
    best, highest = truth, 0.0
    for k in range(3):
        hinge = 1.0 * (k != truth)
        for j in range(p):
            hinge += reals[block * p + j] * (weights[k * p + j] - weights[truth * p + j])
        if hinge > highest:
            best, highest = k, hinge
    if best == truth:
        return 0
    loss[0] = 1.0
    for j in range(p):
        indices[j], values[j] = truth * p + j, reals[block * p + j]
        indices[p + j], values[p + j] = best * p + j, -reals[block * p + j]
    return 2 * p
