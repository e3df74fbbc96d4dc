"""One thread of the process traces at a time.

Tracing exchanges what all threads share: kernels of PyTorch's ops, methods of its fake tensors, the
levels of its loggers, the flag that tells optimizers of a trace.
"""

from torch._dynamo.convert_frame import compile_lock

#: Dynamo holds this lock around everything that it compiles. One of our own, which a trace outside
#: of Dynamo would take first and one within it second, could let two threads wait for each other.
ONE_TRACE_AT_A_TIME = compile_lock
