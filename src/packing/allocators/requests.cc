#include "packing/allocators/requests.h"

#include <algorithm>
#include <tuple>

namespace lowtide::packing::allocators {
namespace {

std::vector<Bytes> sizes_of(const std::vector<Buffer>& buffers) {
  std::vector<Bytes> sizes;
  for (const Buffer& buffer : buffers) sizes.push_back(buffer.bytes);
  return sizes;
}

}  // namespace

std::vector<Request> requests_of(const std::vector<Buffer>& buffers) {
  std::vector<Request> requests;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!takes_room(buffers[i])) continue;
    const auto buffer = static_cast<std::int32_t>(i);
    requests.push_back({buffer, false});
    requests.push_back({buffer, true});
  }
  const auto when = [&](const Request& request) {
    const Buffer& buffer = buffers[request.buffer];
    return std::tuple(request.gives_back ? buffer.end : buffer.begin, !request.gives_back,
                      request.buffer);
  };
  std::ranges::sort(requests, {}, when);
  return requests;
}

Bytes most_alive(const std::vector<Buffer>& buffers, const std::vector<Bytes>& bytes) {
  Bytes alive = 0, most = 0;
  for (const Request& request : requests_of(buffers)) {
    alive += request.gives_back ? -bytes[request.buffer] : bytes[request.buffer];
    most = std::max(most, alive);
  }
  return most;
}

Bytes most_alive(const std::vector<Buffer>& buffers) {
  return most_alive(buffers, sizes_of(buffers));
}

double fragmentation(Bytes height, Bytes most_alive) {
  if (most_alive == 0) return 0;
  return static_cast<double>(height) / static_cast<double>(most_alive) - 1;
}

Pooled serve(const std::vector<Buffer>& buffers, Allocator& allocator) {
  Pooled pooled{std::vector<Bytes>(buffers.size()), std::vector<Bytes>(buffers.size()), 0};
  for (const auto& [buffer, gives_back] : requests_of(buffers)) {
    if (gives_back) {
      allocator.give({pooled.offsets[buffer], pooled.blocks[buffer]});
      continue;
    }
    const Block block = allocator.take(buffers[buffer].bytes);
    pooled.offsets[buffer] = block.offset;
    pooled.blocks[buffer] = block.bytes;
  }
  pooled.height = allocator.height();
  return pooled;
}

}  // namespace lowtide::packing::allocators
