"""Say whether mixed precision is worth it for a model: look at it, and propose the small study that answers."""
