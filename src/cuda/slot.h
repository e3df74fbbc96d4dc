#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/headeronly/version.h>

#include <atomic>

/// Whether LibTorch is 2.`minor` or newer: its class of allocators grows.
#define LOWTIDE_TORCH_SINCE(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

namespace lowtide::cuda {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using AllocatorSlot = std::atomic<CUDAAllocator*>;

/// The variable of the loaded libc10_cuda.so through which LibTorch asks for memory of a GPU.
/// Throws Error where no CUDA build of LibTorch is loaded, or one of another version than this
/// build's.
AllocatorSlot& allocator_slot();

/// Throws InputError that says what to do unless this is LibTorch's own caching allocator.
void require_caching_allocator(CUDAAllocator* allocator);

}  // namespace lowtide::cuda
