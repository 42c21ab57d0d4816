"""Examine a user's model, and propose a small study that shows how fast and how accurately each policy trains it."""
