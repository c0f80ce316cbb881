"""What a team deploys."""
