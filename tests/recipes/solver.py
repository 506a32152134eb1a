from dataclasses import dataclass

import numpy as np

from maxmargin.core.solvers import Solver


@dataclass(frozen=True, kw_only=True)
class Averaging(Solver):
    def _iterate(self, run, start):
        v, loss = np.zeros(run.problem.n_features), 0.0
        for t in range(1_000_000):
            weights = run.project(v)
            cut = run.problem.mean_cut(weights)
            ridge = 0.5 * run.lam * float(weights @ weights)
            if run.check(weights, ridge + cut.upper(weights), loss - run.lam * float(weights @ v) + ridge):
                return
            v += 2 / (t + 2) * (cut.dense(len(v)) / run.lam - v)
            loss += 2 / (t + 2) * (cut.loss - loss)
