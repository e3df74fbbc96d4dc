#include "stash/bits.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "stash/dense.h"

namespace lowtide::stash {
namespace {

constexpr std::int64_t kBits = 8;  ///< of a byte

/// Eight bytes, each 0 or 1, as eight bits.
std::uint8_t byte_of(std::uint64_t booleans) {
  return static_cast<std::uint8_t>((booleans * 0x0102040810204080U) >> 56);
}

/// For elements of N bytes: by byte of bits, the N words over eight elements that keep those whose
/// bit is set.
template <std::size_t N>
constexpr auto keeping_words() {
  std::array<std::array<std::uint64_t, N>, 256> table{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    for (std::size_t byte = 0; byte < 8 * N; ++byte) {
      if ((bits >> (byte / N) & 1U) != 0) {
        table[bits][byte / 8] |= std::uint64_t{0xFF} << (8 * (byte % 8));
      }
    }
  }
  return table;
}

at::Tensor new_bits(const at::Tensor& values) {
  return at::empty({(values.numel() + kBits - 1) / kBits}, values.options().dtype(at::kByte));
}

/// Sets each byte of `bits` by `group(first, count)`, of so many elements, 8 but for the last.
template <typename Group>
void for_each_byte(at::Tensor& bits, std::int64_t elements, const Group& group) {
  auto* const out = bits.mutable_data_ptr<std::uint8_t>();
  at::parallel_for(0, bits.numel(), kGrain / kBits, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = group(kBits * i, std::min(kBits, elements - kBits * i));
    }
  });
}

at::Tensor bits_on_host(const at::Tensor& mask) {
  at::Tensor bits = new_bits(mask);
  const auto* const in = reinterpret_cast<const std::uint8_t*>(mask.const_data_ptr<bool>());
  for_each_byte(bits, mask.numel(), [in](std::int64_t first, std::int64_t count) {
    std::uint64_t booleans = 0;
    std::memcpy(&booleans, in + first, static_cast<std::size_t>(count));
    return byte_of(booleans);
  });
  return bits;
}

at::Tensor bits_by_ops(const at::Tensor& flat) {
  const std::int64_t bytes = (flat.numel() + kBits - 1) / kBits;
  const at::Tensor groups =
      at::constant_pad_nd(flat.to(at::kByte), {0, kBits * bytes - flat.numel()}, 0)
          .view({bytes, kBits});
  at::Tensor bits = groups.select(1, 0).clone();
  for (std::int64_t i = 1; i < kBits; ++i) {
    bits.bitwise_or_(groups.select(1, i).bitwise_left_shift(i));
  }
  return bits;
}

/// Bits of where `passes(value)` is 1 and not 0.
template <typename Value, typename Passes>
at::Tensor bits_where(const at::Tensor& values, const Passes& passes) {
  at::Tensor bits = new_bits(values);
  const auto* const in = values.const_data_ptr<Value>();
  for_each_byte(bits, values.numel(), [in, &passes](std::int64_t first, std::int64_t count) {
    std::array<std::uint8_t, kBits> booleans{};
    if (count == kBits) {
      for (std::size_t i = 0; i < kBits; ++i) booleans[i] = passes(in[first + i]);
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        booleans[static_cast<std::size_t>(i)] = passes(in[first + i]);
      }
    }
    std::uint64_t word = 0;
    std::memcpy(&word, booleans.data(), sizeof word);
    return byte_of(word);
  });
  return bits;
}

at::Tensor passing_bits_on_host(const at::Tensor& values, const at::Scalar& low) {
  at::Tensor bits;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, values.scalar_type(), "lowtide::passing_bits", [&] {
        using Compared = at::opmath_type<scalar_t>;
        const auto from = low.to<Compared>();
        bits = bits_where<scalar_t>(values, [=](scalar_t value) {
          return static_cast<std::uint8_t>(!(static_cast<Compared>(value) <= from));
        });
      });
  return bits;
}

template <std::size_t N>
void keep(const std::uint8_t* bits, const std::byte* in, std::byte* out, std::int64_t begin,
          std::int64_t end, std::int64_t elements) {
  static constexpr auto kWords = keeping_words<N>();
  for (std::int64_t i = begin; i < end; ++i) {
    std::array<std::uint64_t, N> words{};
    const std::int64_t first = kBits * i;
    const auto bytes = N * static_cast<std::size_t>(std::min(kBits, elements - first));
    std::memcpy(words.data(), in + N * static_cast<std::size_t>(first), bytes);
    for (std::size_t word = 0; word < N; ++word) words[word] &= kWords[bits[i]][word];
    std::memcpy(out + N * static_cast<std::size_t>(first), words.data(), bytes);
  }
}

void keep_elements(std::int64_t bytes_each, const std::uint8_t* bits, const std::byte* in,
                   std::byte* out, std::int64_t elements) {
  const auto each = bytes_each == 2 ? keep<2> : bytes_each == 4 ? keep<4> : keep<8>;
  at::parallel_for(
      0, (elements + kBits - 1) / kBits, kGrain / kBits,
      [&](std::int64_t begin, std::int64_t end) { each(bits, in, out, begin, end, elements); });
}

}  // namespace

at::Tensor to_bits(const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "to_bits wants booleans, not ", mask.scalar_type());
  const at::Tensor flat = in_memory_order(mask);
  return on_host(mask) ? bits_on_host(flat) : bits_by_ops(flat);
}

at::Tensor from_bits(const at::Tensor& bits, at::IntArrayRef size, at::IntArrayRef stride) {
  at::Tensor mask = at::empty_strided(size, stride, bits.options().dtype(at::kBool));
  at::Tensor flat = in_memory_order(mask);
  const std::int64_t elements = flat.numel();
  if (!on_host(bits)) {
    const at::Tensor places = at::arange(kBits, bits.options());
    flat.copy_(bits.unsqueeze(1).bitwise_right_shift(places).bitwise_and(1).view({-1}).narrow(
        0, 0, elements));
    return mask;
  }
  const auto* const in = bits.const_data_ptr<std::uint8_t>();
  auto* const out = reinterpret_cast<std::uint8_t*>(flat.mutable_data_ptr<bool>());
  static constexpr auto kOnes = std::uint64_t{0x0101010101010101};
  static constexpr auto kWords = keeping_words<1>();
  at::parallel_for(0, bits.numel(), kGrain / kBits, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t word = kWords[in[i]][0] & kOnes;
      const auto count = static_cast<std::size_t>(std::min(kBits, elements - kBits * i));
      std::memcpy(out + kBits * i, &word, count);
    }
  });
  return mask;
}

at::Tensor passing_bits(const at::Tensor& values, const at::Scalar& low) {
  const at::Tensor flat = in_memory_order(values);
  return on_host(values) ? passing_bits_on_host(flat, low)
                         : bits_by_ops(flat.le(low).logical_not());
}

at::Tensor pass_by_bits(const at::Tensor& gradient, const at::Tensor& bits) {
  if (!on_host(gradient)) {
    const at::Tensor mask = from_bits(bits, gradient.sizes(), gradient.strides());
    return at::where(mask, gradient, at::Scalar(0));
  }
  const at::Tensor flat = in_memory_order(gradient);
  at::Tensor passed = at::empty_strided(gradient.sizes(), gradient.strides(), gradient.options());
  keep_elements(gradient.element_size(), bits.const_data_ptr<std::uint8_t>(),
                static_cast<const std::byte*>(flat.const_data_ptr()),
                static_cast<std::byte*>(passed.mutable_data_ptr()), gradient.numel());
  return passed;
}

}  // namespace lowtide::stash
