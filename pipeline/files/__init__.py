"""Read files, within limits if others may have made or damaged them, and write YAML as DVC does."""
