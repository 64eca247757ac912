"""Time and memory of scoring in bulk against the number of series."""

from tests.bench import batch
from tests.bench.measure import Row, alone, exponent

NODES = (4, 40, 400, 1200)
"""1 k, 10 k, 100 k and 300 k series."""


def rows(nodes: tuple[int, ...] = NODES, minutes: int = 11) -> list[Row]:
    """Each size in a process of its own, so that its peak memory is its own."""
    found = [alone(batch.measure, size, minutes) for size in nodes]
    series = [one[0] for one in found]
    seconds = [one[2].seconds for one in found]
    peaks = [one[3] for one in found]
    said = ", ".join(
        f"{count:,}: {spent.seconds:.2f} s ({spent.cpu:.2f} of CPU), {peak:.2f} GiB" for count, _, spent, peak in found
    )
    # The interpreter and its libraries are there for one series as for a million: only what comes on top grows.
    grown = [(count, peak - peaks[0]) for count, peak in zip(series[1:], peaks[1:], strict=True)]
    said += f"; between the two largest {exponent(series[-2:], seconds[-2:]):.2f}"
    out = [Row("growth of time with series", exponent(series, seconds), "(exponent)", 1.05, note=said)]
    if len(grown) > 1:
        slope = exponent(*zip(*grown, strict=True))
        out.append(Row("growth of memory with series", slope, "(exponent)", 1.05, note="above the smallest size"))
    return out
