"""Times that are only a little off: what passes outside of the calls of a burst is alike for all contenders.

The bound of 5 ms + 3 % on a single burst must let a disturbed one pass, and in a burst of 20 ms it lets a lie of a
quarter pass too. The way to a child and back costs every contender of a set the same, so that the median over its
bursts tells a process that steals or adds time. Not for fewer than three contenders: two do not say which of them lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from optimizer.benchmarking.bursts import Entrant
from optimizer.benchmarking.load import busy
from optimizer.errors import FuseworksError

# honest gaps lie at 1.2 to 1.35 ms on a quiet machine; half-busy ones spread further, and an honest engine that is
# accused costs the answer its peer
GAP_SLACK_NS, GAP_SHARE = 2_000_000, 0.02
MIN_CONTENDERS, MIN_BURSTS = 3, 4


def outliers(entrants: Mapping[str, Entrant]) -> Iterator[tuple[str, FuseworksError]]:
    """Contenders whose median gap lies apart from the median of the others', with the error that ends them.

    Where the coordinator waited for a core, what is known of a gap is a range; the ranges must lie apart.

    All must be stopped. Nobody is accused while other work wants the cores: then gaps say more of it than of them.
    """
    known = {name: one for name, one in entrants.items() if len(one.bursts) >= MIN_BURSTS}
    if len(known) < MIN_CONTENDERS:
        return
    most = {name: float(np.median([burst.gap_ns for burst in one.bursts])) for name, one in known.items()}
    least = {name: float(np.median([burst.least_gap_ns for burst in one.bursts])) for name, one in known.items()}
    apart: list[tuple[str, float, float]] = []
    for name in known:
        rivals = [rival for rival in known if rival != name]
        others_most = float(np.median([most[rival] for rival in rivals]))
        others_least = float(np.median([least[rival] for rival in rivals]))
        slack = GAP_SLACK_NS + GAP_SHARE * float(np.median([burst.outside_ns for burst in known[name].bursts]))
        if least[name] > others_most + slack:
            apart.append((name, least[name], others_most))
        elif most[name] < others_least - slack:
            apart.append((name, most[name], others_least))
    if not apart or busy():
        return
    for name, gap, others in apart:
        yield (
            name,
            FuseworksError(
                "benchmarking:user:gap",
                place=name,
                name=name,
                gap_ms=round(gap / 1e6, 2),
                others_ms=round(others / 1e6, 2),
            ),
        )
