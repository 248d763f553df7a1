"""Report: what follows the commit, pages and dead letters; nothing here affects correctness."""
