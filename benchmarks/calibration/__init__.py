"""Do the verdicts hold? Records identical processes under four conditions and judges them anew: `make calibrate`.

No part of Fuseworks uses it. docs/measuring.md says what it found and how to repeat it.
"""
