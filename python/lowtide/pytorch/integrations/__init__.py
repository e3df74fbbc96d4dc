"""Training loops of other projects within a budget: ``huggingface`` and ``lightning``.

Each module needs its project to be installed when it is imported.
"""
