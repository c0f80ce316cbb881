"""Workers and their devices, and the dispatcher: the only sender of messages, and the reaper of dead attempts."""
