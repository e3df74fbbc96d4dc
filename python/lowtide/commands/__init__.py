"""The commands of ``python -m lowtide``."""
