"""The stage `payload` of a test's child: what a hostile model may try, one operation each."""

import payload_harmless
import payload_reach
import payload_resources
import payload_wire
from payload_registry import OPERATIONS

__all__ = ["OPERATIONS", "payload_harmless", "payload_reach", "payload_resources", "payload_wire"]
