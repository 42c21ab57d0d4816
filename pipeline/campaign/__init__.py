"""Repeat a study as a campaign: make the campaign's folder, define its jobs, keep the ledger, and detect drift."""
