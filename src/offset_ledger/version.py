"""The version of the package; batches keep it."""

__version__ = "0.1.0"
