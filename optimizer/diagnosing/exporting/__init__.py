"""A diagnosis as a file: `export(diagnosis, "sarif")`. What pages and the command line use; needs no torch.

Not for terminals (`reporting/diagnosis_text.py`), and not for what an optimizing run reports (`reporting/report.py`).
"""

from optimizer.diagnosing.exporting.answers import diagnosis_of
from optimizer.diagnosing.exporting.formats import FORMATS, Format, export

__all__ = ["FORMATS", "Format", "diagnosis_of", "export"]
