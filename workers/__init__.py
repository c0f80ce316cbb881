"""The workers' side: it takes a run, starts a coordinator and reports. No Django, no torch, no database credentials."""
