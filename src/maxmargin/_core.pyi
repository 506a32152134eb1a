from typing import Any

import numpy as np
from numpy.typing import NDArray

class GraphCut:
    def __init__(self, n_nodes: int, edges: NDArray[np.int32]) -> None: ...
    def solve(self, unary: NDArray[np.float64], tables: NDArray[np.float64]) -> tuple[float, NDArray[np.uint8]]: ...

def best_binary(
    unary: NDArray[np.float64], edges: NDArray[np.int32], pair_weight: NDArray[np.float64]
) -> tuple[float, NDArray[np.uint8]]: ...
def max_flow(
    n_nodes: int,
    edges: NDArray[np.int32],
    forward: NDArray[np.float64],
    backward: NDArray[np.float64],
    source: NDArray[np.float64],
    sink: NDArray[np.float64],
) -> tuple[float, NDArray[np.uint8]]: ...
def solve_list(
    scores: NDArray[np.floating[Any]], relevant: NDArray[np.uint8], loss: object, method: str, loss_scale: float
) -> tuple[
    float,
    float,
    NDArray[np.floating[Any]],
    NDArray[np.int32],
    NDArray[np.int64],
    int,
]: ...
def solve_lists(
    scores: NDArray[np.floating[Any]],
    relevant: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    loss: str,
    loss_scale: float,
    n_threads: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.floating[Any]]]: ...
def tree_best(
    unary: NDArray[np.float64], pairwise: NDArray[np.float64], parent: NDArray[np.int32]
) -> tuple[NDArray[np.int32], float]: ...
def tree_marginals(
    unary: NDArray[np.float64],
    pairwise: NDArray[np.float64],
    parent: NDArray[np.int32],
    temperature: float,
    with_edges: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]: ...
def chain_best_many(
    unary: NDArray[np.float64], pairwise: NDArray[np.float64], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...
def chain_marginals_many(
    unary: NDArray[np.float64],
    pairwise: NDArray[np.float64],
    offsets: NDArray[np.int64],
    temperature: float,
    with_edges: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...
