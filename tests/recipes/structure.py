import numpy as np

from maxmargin.core import Structure


class ThreeClasses(Structure):
    def joint_feature(self, x, y):
        return np.outer(np.eye(3)[y], x).ravel()

    def loss(self, truth, y):
        return float(truth != y)

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        return int(np.argmax(a * weights.reshape(3, -1) @ x + b * (np.arange(3) != truth)))
