"""Do predicted gains come true? Records predictions beside measured gains on the examples and on variants of them, and
makes of it what predictions are corrected by: `make calibrate-predictions`.

No part of Fuseworks uses it, but for `optimizer/diagnosing/calibration.json`, which it writes.
"""
