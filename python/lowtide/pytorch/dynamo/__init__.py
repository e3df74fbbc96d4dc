"""Traces a model, and makes each traced graph a call that `autograd` runs."""
