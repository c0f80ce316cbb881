"""The two ends of a predicted time, in one place with all that they take for granted. Pure arithmetic.

Lower end: the sum of the roofline bounds; nothing real is faster. Upper end: for each launch, what a careful kernel of
its kind reaches of the bound, with a gap between launches:

    upper = gap + max(shortest, bound / share)
    share = best share of its kind × min(1, bytes in flight / bytes wanted in flight)     (kernels bound by memory)

The upper end is an expectation, no bound: a contended device, a bad library kernel or a waiting host are slower.
"""

from __future__ import annotations

from optimizer.predicting.document import Formula

# Each is an assumption, shown with every prediction; none was measured on the target.
LAUNCH_GAP_US = 5.0  # between two launches of a stream that the host feeds one by one, without CUDA graphs
SHORTEST_US = 2.0  # of a kernel that does next to nothing
GENERATED_SHARE = 0.75  # of the bandwidth, by generated and by the library's kernels that keep enough in flight
EXTERN_SHARE = 0.50  # of bandwidth or FLOP/s, by library calls: their shapes decide, and are seldom the best ones
LEAST_SHARE = 0.05  # fewer bytes in flight lengthen a launch no further than this


def upper_us(bound_us: float, share: float) -> float:
    """Of one launch."""
    return LAUNCH_GAP_US + max(SHORTEST_US, bound_us / share)


def kernel_share(bytes_in_flight: int, wanted: int, bound_by: str) -> float:
    """Of the bound, by a kernel whose resources are known."""
    if bound_by == "compute" or not bytes_in_flight:
        return GENERATED_SHARE
    return max(LEAST_SHARE, GENERATED_SHARE * min(1.0, bytes_in_flight / wanted))


def formula() -> Formula:
    return Formula(
        lower="sum over all launches of max(bytes / bandwidth, flops / rate): the roofline bounds",
        upper=(
            "sum over all launches of gap + max(shortest, bound / share); share of a generated or library kernel = "
            "generated_share × min(1, bytes in flight / (bandwidth × latency)), at least least_share, without the "
            "second factor when compute binds; share of an extern call = extern_share"
        ),
        assumptions={
            "gap_us": LAUNCH_GAP_US,
            "shortest_us": SHORTEST_US,
            "generated_share": GENERATED_SHARE,
            "extern_share": EXTERN_SHARE,
            "least_share": LEAST_SHARE,
        },
        notes=[
            "Predicted: nothing was run on the device, and that a real one's Inductor emits the same is not tested.",
            "The upper end is an expectation, no bound.",
            "Bytes are counted once for each buffer that a launch reads or writes, gathered rows as if all were "
            "distinct; what stays in a cache between launches is counted again.",
            "Attention is taken to be the library call that PyTorch chooses on CUDA.",
            "Where tuning would choose between configurations, the one that runs untuned is shown.",
        ],
    )
