"""A limit divided over what is wanted."""

from __future__ import annotations

from collections.abc import Sequence


def fair_shares(widths: Sequence[int], limit: int, turn: int = 0) -> tuple[int, ...]:
    """Divide ``limit`` over ``widths``, max-min fair: nobody gets more than it has, nobody small is starved.

    A remainder smaller than the number of those still wanting goes one each, beginning at place ``turn``, so that
    over several batches every partition has its turn even where the limit is below their number.
    """
    shares = [0] * len(widths)
    left = min(limit, sum(widths))
    hungry = [i for i, width in enumerate(widths) if width > 0]
    while left > 0:
        if left < len(hungry):
            first = turn % len(hungry)
            for i in (hungry[first:] + hungry[:first])[:left]:
                shares[i] += 1
            break
        each = left // len(hungry)
        for i in hungry:
            given = min(each, widths[i] - shares[i])
            shares[i] += given
            left -= given
        hungry = [i for i in hungry if shares[i] < widths[i]]
    return tuple(shares)
