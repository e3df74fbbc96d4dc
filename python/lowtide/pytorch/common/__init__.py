"""The user's arguments, warnings at the user's line, a model's state before and after."""
