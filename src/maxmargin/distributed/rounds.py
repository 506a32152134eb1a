"""Several computations over shards in common rounds, which cost as many rounds as the longest one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")

# An operation and its arguments.
Request = tuple[str, Any]
# A computation that yields requests and receives their replies.
Rounds = Generator[Request, Any, Result]


def run_rounds(tasks: Sequence[Rounds[Result]], send: Callable[[dict[int, Request]], dict[int, Any]]) -> list[Result]:
    """Advance generators together: in every round, all that have not ended yield a request, and all requests are sent at once.

    Parameters
    ----------
    tasks : sequence of generators
        Each yields ``(operation, args)``, receives the reply, and returns a result.
    send : callable
        Takes the requests of a round by the number of the task, and returns the replies by the same numbers.

    Returns
    -------
    list
        The results, in the order of the tasks.

    Examples
    --------
    >>> def twice():
    ...     first = yield "double", 1
    ...     return [first, (yield "double", first)]
    >>> def once():
    ...     return (yield "double", 7)
    >>> sizes = []
    >>> def send(requests):
    ...     sizes.append(len(requests))
    ...     return {k: 2 * number for k, (_, number) in requests.items()}
    >>> run_rounds([twice(), twice(), once()], send), sizes
    ([[2, 4], [2, 4], 14], [3, 2])
    """
    results: dict[int, Result] = {}
    replies: dict[int, Any] = dict.fromkeys(range(len(tasks)))
    while replies:
        requests: dict[int, Request] = {}
        for k, reply in replies.items():
            try:
                requests[k] = tasks[k].send(reply)
            except StopIteration as ended:
                results[k] = ended.value
        replies = send(requests) if requests else {}
    return [results[k] for k in range(len(tasks))]
