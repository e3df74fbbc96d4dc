"""The dtypes that the graph format has."""

import torch

NAMES = {
    torch.complex128: "c128", torch.complex64: "c64",
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
    torch.uint64: "u64", torch.uint8: "u8", torch.bool: "bool",
}
