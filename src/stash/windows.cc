#include "stash/windows.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "stash/dense.h"

namespace lowtide::stash {
namespace {

constexpr std::int64_t kPlaces = 256;  ///< that a byte tells apart

/// Walks over the elements of a dense tensor in the order of their addresses, and says where the
/// window of each begins.
class Windows {
 public:
  Windows(const at::Tensor& tensor, std::int64_t first, at::IntArrayRef step) : first_(first) {
    TORCH_CHECK(step.size() == static_cast<std::size_t>(tensor.dim()),
                "windows want a step for each of ", tensor.dim(), " dimensions, not ", step.size());
    std::vector<std::size_t> order(step.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto strides = tensor.strides();
    // Of two with one stride, that of one element alone goes around the other.
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      const auto size_of = [&](std::size_t dim) { return tensor.size(static_cast<int>(dim)); };
      return strides[a] != strides[b] ? strides[a] < strides[b] : size_of(a) > size_of(b);
    });
    for (const std::size_t dim : order) {
      sizes_.push_back(tensor.size(static_cast<std::int64_t>(dim)));
      steps_.push_back(step[dim]);
    }
  }

  /// Calls `each(element, begin of its window)` for elements in [begin, end).
  template <typename Each>
  void visit(std::int64_t begin, std::int64_t end, const Each& each) const {
    std::vector<std::int64_t> place(sizes_.size());
    std::int64_t window = first_, rest = begin;
    for (std::size_t d = 0; d < sizes_.size(); ++d) {
      place[d] = rest % sizes_[d];
      rest /= sizes_[d];
      window += place[d] * steps_[d];
    }
    for (std::int64_t element = begin; element < end; ++element) {
      each(element, window);
      for (std::size_t d = 0; d < sizes_.size(); ++d) {
        window += steps_[d];
        if (++place[d] < sizes_[d]) break;
        window -= place[d] * steps_[d];
        place[d] = 0;
      }
    }
  }

 private:
  std::int64_t first_;
  std::vector<std::int64_t> sizes_, steps_;  ///< the dimension of the closest addresses first
};

/// Where windows begin, for tensors that are not in the host's memory.
at::Tensor begins(const at::Tensor& like, std::int64_t first, at::IntArrayRef step) {
  at::Tensor begin = at::full({}, first, like.options().dtype(at::kLong));
  for (std::int64_t d = 0; d < like.dim(); ++d) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
    shape[static_cast<std::size_t>(d)] = like.size(d);
    const at::Tensor places = at::arange(like.size(d), begin.options());
    begin = begin.add(places.mul(step[static_cast<std::size_t>(d)]).view(shape));
  }
  return begin;
}

std::int64_t combinations(at::IntArrayRef unit, at::IntArrayRef sizes) {
  TORCH_CHECK(unit.size() == sizes.size(), "windows want a size for each unit");
  const std::int64_t count =
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
  TORCH_CHECK(0 < count && count <= kPlaces, "a byte tells ", kPlaces, " places apart, not ",
              count);
  return count;
}

at::Tensor places_by_ops(const at::Tensor& indices, std::int64_t first, at::IntArrayRef step,
                         at::IntArrayRef unit, at::IntArrayRef sizes) {
  at::Tensor rest = indices.sub(begins(indices, first, step));
  at::Tensor place = at::zeros_like(rest);
  for (std::size_t j = 0; j < unit.size(); ++j) {
    const at::Tensor digit = rest.div(unit[j], "floor");
    rest.sub_(digit.mul(unit[j]));
    place.mul_(sizes[j]).add_(digit);
  }
  return at::empty_like(indices, at::kByte).copy_(place);
}

at::Tensor indices_by_ops(const at::Tensor& places, std::int64_t first, at::IntArrayRef step,
                          at::IntArrayRef unit, at::IntArrayRef sizes) {
  at::Tensor rest = at::empty_like(places, at::kLong).copy_(places);
  at::Tensor index = at::empty_like(rest).copy_(begins(places, first, step).expand_as(rest));
  for (std::size_t j = unit.size(); j-- > 0;) {
    index.add_(rest.remainder(sizes[j]).mul(unit[j]));
    rest = rest.div(sizes[j], "floor");
  }
  return index;
}

/// By place in a window: how far beyond its begin the index lies.
std::array<std::int64_t, kPlaces> distances(std::int64_t count, at::IntArrayRef unit,
                                            at::IntArrayRef sizes) {
  std::array<std::int64_t, kPlaces> table{};
  for (std::int64_t place = 0; place < count; ++place) {
    std::int64_t rest = place;
    for (std::size_t j = unit.size(); j-- > 0;) {
      table[static_cast<std::size_t>(place)] += rest % sizes[j] * unit[j];
      rest /= sizes[j];
    }
  }
  return table;
}

}  // namespace

at::Tensor window_places(const at::Tensor& indices, std::int64_t first, at::IntArrayRef step,
                         at::IntArrayRef unit, at::IntArrayRef sizes) {
  combinations(unit, sizes);
  if (!on_host(indices)) return places_by_ops(indices, first, step, unit, sizes);
  const auto* const in = in_memory_order(indices).const_data_ptr<std::int64_t>();
  at::Tensor places = at::empty_like(indices, at::kByte);
  auto* const out = places.mutable_data_ptr<std::uint8_t>();
  const Windows windows(indices, first, step);
  at::parallel_for(0, indices.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    windows.visit(begin, end, [&](std::int64_t element, std::int64_t window) {
      std::int64_t rest = in[element] - window, place = 0;
      for (std::size_t j = 0; j < unit.size(); ++j) {
        std::int64_t digit = 0;
        for (std::int64_t i = 1; i < sizes[j]; ++i) {  // few, and no branch to be mispredicted
          const auto is_beyond = static_cast<std::int64_t>(rest >= unit[j]);
          rest -= is_beyond * unit[j];
          digit += is_beyond;
        }
        place = place * sizes[j] + digit;
      }
      out[element] = static_cast<std::uint8_t>(place);
    });
  });
  return places;
}

at::Tensor window_indices(const at::Tensor& places, std::int64_t first, at::IntArrayRef step,
                          at::IntArrayRef unit, at::IntArrayRef sizes) {
  const std::int64_t count = combinations(unit, sizes);
  if (!on_host(places)) return indices_by_ops(places, first, step, unit, sizes);
  const auto* const in = in_memory_order(places).const_data_ptr<std::uint8_t>();
  at::Tensor indices = at::empty_like(places, at::kLong);
  auto* const out = indices.mutable_data_ptr<std::int64_t>();
  const Windows windows(places, first, step);
  const auto distance = distances(count, unit, sizes);
  at::parallel_for(0, places.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    windows.visit(begin, end, [&](std::int64_t element, std::int64_t window) {
      out[element] = window + distance[in[element]];
    });
  });
  return indices;
}

}  // namespace lowtide::stash
