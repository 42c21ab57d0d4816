"""Store costly results by their identities, so that finished results are reused."""
