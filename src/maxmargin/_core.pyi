from typing import Any

import numpy as np
from numpy.typing import NDArray

class TextError(ValueError): ...
class ZeroIndexError(TextError): ...
class SplitQueryError(TextError): ...

class SimplexQP:
    def __init__(self, total: float | SimplexQP) -> None: ...
    def __len__(self) -> int: ...
    @property
    def total(self) -> float: ...
    @property
    def linear(self) -> NDArray[np.float64]: ...
    @property
    def gram(self) -> NDArray[np.float64]: ...
    @property
    def solution(self) -> NDArray[np.float64]: ...
    @property
    def in_sum(self) -> NDArray[np.float64]: ...
    @property
    def value(self) -> float: ...
    def add(self, products: NDArray[np.float64], linear: float, in_sum: bool = True) -> None: ...
    def set_linear(self, values: NDArray[np.float64]) -> None: ...
    def set_solution(self, values: NDArray[np.float64]) -> None: ...
    def keep(self, kept: NDArray[np.int64]) -> None: ...
    def solve(self) -> None: ...

class SvmlightParser64:
    def __init__(
        self,
        with_features: bool,
        with_comments: bool,
        zero_allowed: bool,
        split_allowed: bool,
        n_threads: int,
        piece_bytes: int,
    ) -> None: ...
    def feed(self, block: NDArray[np.uint8]) -> None: ...
    def finish(self) -> dict[str, Any]: ...

class SvmlightParser32(SvmlightParser64): ...

class Features:
    def __init__(
        self,
        values: NDArray[np.float64],
        columns: NDArray[np.int32] | None,
        begin: NDArray[np.int64] | None,
        n_columns: int,
    ) -> None: ...

def compress_rows(X: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]: ...

class BlockData:
    def n_bytes(self, interior: bool) -> int: ...

class ClassData(BlockData):
    def __init__(
        self,
        features: Features,
        y: NDArray[np.int32],
        costs: NDArray[np.float64] | None,
        n_labels: int,
        weights: NDArray[np.float64] | None = None,
    ) -> None: ...

class LabelingData(BlockData):
    def __init__(
        self,
        features: Features,
        y: NDArray[np.int32],
        cost: NDArray[np.float64],
        offsets: NDArray[np.int64],
        parent: NDArray[np.int32] | None,
        n_labels: int,
    ) -> None: ...
    def set_decoder(self, address: int, reals: NDArray[np.float64], integers: NDArray[np.int64]) -> None: ...
    def decode(self, block: int, scores: NDArray[np.float64], table: NDArray[np.float64]) -> NDArray[np.int32]: ...

class CompiledOracle(BlockData):
    def __init__(
        self,
        address: int,
        reals: NDArray[np.float64],
        integers: NDArray[np.int64],
        n_blocks: int,
        n_weights: int,
        most_entries: int,
    ) -> None: ...
    def ask(self, block: int, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]: ...

class PythonOracle(BlockData):
    def __init__(self, problem: object, n_blocks: int, n_weights: int) -> None: ...

class BlockSettings:
    @staticmethod
    def frank_wolfe(sampling: str, steps: str, cache: int, seed: int) -> BlockSettings: ...
    @staticmethod
    def partial_linearization(temperature: float, rule: str, mass: float, seed: int) -> BlockSettings: ...

class BlockEngine:
    def __init__(
        self,
        data: BlockData,
        lam: float,
        lower: NDArray[np.float64] | None,
        upper: NDArray[np.float64] | None,
        settings: BlockSettings,
        start: BlockEngine | None,
        transport: bool = False,
    ) -> None: ...
    def run(
        self, most_visits: int, most_calls: int, quiet_calls: int, absolute: float, relative: float
    ) -> tuple[int, int, bool, bool]: ...
    def gap_pass(self) -> tuple[float, float, float, float]: ...
    def sweep(self) -> float: ...
    def settle(self, goal: float, most_visits: int) -> bool: ...
    def step_all(self, step: float = -1.0) -> int: ...
    def weights(self) -> NDArray[np.float64]: ...
    def gaps(self) -> NDArray[np.float64]: ...
    @property
    def dual(self) -> float: ...
    @property
    def known_gap(self) -> float: ...
    @property
    def all_seen(self) -> bool: ...
    @property
    def lam(self) -> float: ...
    @property
    def worse_than_truth(self) -> int: ...
    @property
    def n_bytes(self) -> int: ...

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
def forest_best_many(
    unary: NDArray[np.float64],
    pairwise: NDArray[np.float64],
    offsets: NDArray[np.int64],
    parent: NDArray[np.int32] | None,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...
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
