"""Say whether mixed precision is worth it for a model: examine the model, and propose a small study to find out."""
