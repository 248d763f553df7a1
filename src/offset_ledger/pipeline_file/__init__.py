"""The pipeline file: read with its lines, checked, and turned into frozen values."""
