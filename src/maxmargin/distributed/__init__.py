"""Data in parts: problems whose rows are spread over shards, which an engine asks; the same cuts and certificates as on one."""
