"""Who may do what: business units, teams, members and their roles, API tokens, the audit log."""
