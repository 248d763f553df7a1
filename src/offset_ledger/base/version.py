"""The version of the package; batches keep it."""

__version__ = "0.2.0"
