"""Which version of the package this is."""

__version__ = "2.0.0.dev0"
