#pragma once

#include "autodiff/rule_case.h"
#include "builder/functions.h"

namespace lowtide::testing::pooling {

inline std::vector<RuleCase> cases() {
  const Operand x = {{2, 3, 7, 6}}, distinct = {{2, 3, 7, 6}, Draw::spread};
  return {
      unary("max_pool2d", distinct,
            [](Value x) { return sq(max_pool2d(x, {.kernel = {2, 2}})); },
            [](auto& x) { return sq(std::get<0>(at::max_pool2d_with_indices(x, {2, 2}))); }),
      unary("overlapping max_pool2d", distinct,
            [](Value x) {
              return sq(max_pool2d(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}));
            },
            [](auto& x) {
              return sq(std::get<0>(at::max_pool2d_with_indices(x, {3, 3}, {2, 2}, {1, 1})));
            }),
      unary("max_pool2d rounding up", distinct,
            [](Value x) { return sq(max_pool2d(x, {.kernel = {2, 2}, .ceil_mode = true})); },
            [](auto& x) {
              return sq(std::get<0>(
                  at::max_pool2d_with_indices(x, {2, 2}, {2, 2}, {0, 0}, {1, 1}, true)));
            }),
      unary("max_unpool2d", distinct,
            [](Value x) {
              const auto [y, indices] = max_pool2d_with_indices(x, {.kernel = {2, 2}});
              return sq(max_unpool2d(y, indices, 7, 6));
            },
            [](auto& x) {
              const auto [y, indices] = at::max_pool2d_with_indices(x, {2, 2});
              return sq(at::max_unpool2d(y, indices, {7, 6}));
            }),
      unary("avg_pool2d", x, [](Value x) { return sq(avg_pool2d(x, {.kernel = {3, 2}})); },
            [](auto& x) { return sq(at::avg_pool2d(x, {3, 2})); }),
      unary("overlapping avg_pool2d", x,
            [](Value x) {
              return sq(avg_pool2d(x, {.kernel = {3, 3}, .stride = {1, 2}, .padding = {1, 1}}));
            },
            [](auto& x) { return sq(at::avg_pool2d(x, {3, 3}, {1, 2}, {1, 1})); }),
      unary("global_avg_pool2d", x, [](Value x) { return sq(global_avg_pool2d(x)); },
            [](auto& x) { return sq(x.mean({2, 3}, true)); }),
      unary("adaptive average pooling", x,
            [](Value x) {
              return sq(x.builder().call1("aten::_adaptive_avg_pool2d", {x, Shape{3, 4}}));
            },
            [](auto& x) { return sq(at::_adaptive_avg_pool2d(x, {3, 4})); }),
      unary("bilinear", x, [](Value x) { return sq(upsample_bilinear2d(x, 9, 13)); },
            [](auto& x) { return sq(at::upsample_bilinear2d(x, {9, 13}, false)); }),
      unary("nearest", x, [](Value x) { return sq(upsample_nearest2d(x, 14, 11)); },
            [](auto& x) { return sq(at::upsample_nearest2d(x, {14, 11})); }),
  };
}

}  // namespace lowtide::testing::pooling
