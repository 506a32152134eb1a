import numpy as np

from maxmargin.ranking import RankingLoss


class RankBiased(RankingLoss):
    def derivative(self, j, i, n_pos, n_neg):
        return -0.01 * 0.9 ** (i + j - 2) / (1 - 0.9**n_pos)

    def value(self, negatives_above, n_neg):
        i = np.arange(len(negatives_above))
        return 1 - 0.1 * np.sum(0.9 ** (i + negatives_above)) / (1 - 0.9 ** len(i))
