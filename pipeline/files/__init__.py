"""Read files that others may have made or damaged, within limits, and write YAML as DVC does."""
