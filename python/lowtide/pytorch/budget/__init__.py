"""Settings, optimizer state, and the account of what a budget holds."""
