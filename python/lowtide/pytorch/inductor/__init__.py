"""PyTorch's own compiler within a budget: forward and backward graphs that Inductor compiles."""

from ...lazy import lazily

__all__ = ["Candidate", "Fitted", "InductorMode", "PlannedPartition", "backend", "compile_within",
           "planned_step"]

__getattr__ = lazily(__name__, {  # torch._inductor takes seconds to import
    "Candidate": ".select.candidate",
    "Fitted": ".fit",
    "InductorMode": ".mode",
    "PlannedPartition": ".select.partition_fn",
    "backend": ".compiler",
    "compile_within": ".fit",
    "planned_step": ".step_of_kernels",
})
