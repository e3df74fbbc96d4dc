#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace lowtide::bounds {

/// A set of small numbers: values of a StageGraph, or its stages.
class ValueSet {
 public:
  static constexpr int kMost = 256;  ///< elements are below this

  bool contains(int v) const { return words_[word(v)] >> (v % 64) & 1; }
  void insert(int v) { words_[word(v)] |= bit(v); }
  void erase(int v) { words_[word(v)] &= ~bit(v); }
  bool empty() const { return *this == ValueSet(); }

  bool is_subset_of(const ValueSet& other) const { return (*this - other).empty(); }
  bool intersects(const ValueSet& other) const { return !(*this & other).empty(); }

  ValueSet operator&(const ValueSet& other) const {
    return combined(other, [](auto a, auto b) { return a & b; });
  }
  ValueSet operator|(const ValueSet& other) const {
    return combined(other, [](auto a, auto b) { return a | b; });
  }
  ValueSet operator-(const ValueSet& other) const {
    return combined(other, [](auto a, auto b) { return a & ~b; });
  }
  bool operator==(const ValueSet&) const = default;

  /// In ascending order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (std::uint64_t left = words_[w]; left != 0; left &= left - 1) {
        visit(static_cast<int>(64 * w) + std::countr_zero(left));
      }
    }
  }

  std::size_t hash() const {
    std::uint64_t mixed = 0;
    for (std::uint64_t w : words_) {
      mixed = (mixed ^ w) * 0x9e3779b97f4a7c15;
      mixed ^= mixed >> 29;
    }
    return mixed;
  }

 private:
  static std::size_t word(int v) { return static_cast<std::size_t>(v) / 64; }
  static std::uint64_t bit(int v) { return std::uint64_t{1} << (v % 64); }

  template <class Combine>
  ValueSet combined(const ValueSet& other, const Combine& combine) const {
    ValueSet result;
    for (std::size_t w = 0; w < words_.size(); ++w) {
      result.words_[w] = combine(words_[w], other.words_[w]);
    }
    return result;
  }

  std::array<std::uint64_t, kMost / 64> words_{};
};

}  // namespace lowtide::bounds
