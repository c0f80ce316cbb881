"""What `fuseworks diagnose` answers, by the name that the diagnosing stage knows it by; its home is the result."""

from __future__ import annotations

from optimizer.result import Diagnosis, TracedRank

__all__ = ["NOTHING", "Diagnosis", "TracedRank"]

NOTHING = "Nothing worth doing: no cause that the rules know takes much of the time."
