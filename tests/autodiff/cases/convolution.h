#pragma once

#include "autodiff/rule_case.h"
#include "builder/functions.h"

namespace lowtide::testing::convolution {

inline RuleCase convolution(const std::string& name, Shape x, Shape weight,
                            const ConvOptions& options) {
  return {.name = name,
          .operands = {{std::move(x)}, {weight}, {{weight[0]}}},
          .build = [=](const Values& v) { return Values{conv2d(v[0], v[1], v[2], options)}; },
          .torch =
              [=](const Tensors& v) {
                return Tensors{at::conv2d(v[0], v[1], v[2], options.stride, options.padding,
                                          options.dilation, options.groups)};
              }};
}

inline RuleCase transposed_convolution(const std::string& name, Shape x, Shape weight,
                                const ConvOptions& options) {
  return {.name = name,
          .operands = {{std::move(x)}, {weight}, {{weight[1] * options.groups}}},
          .build =
              [=](const Values& v) { return Values{conv_transpose2d(v[0], v[1], v[2], options)}; },
          .torch =
              [=](const Tensors& v) {
                return Tensors{at::conv_transpose2d(v[0], v[1], v[2], options.stride,
                                                    options.padding, {0, 0}, options.groups,
                                                    options.dilation)};
              }};
}

inline std::vector<RuleCase> cases() {
  return {
      convolution("convolution", {2, 3, 7, 6}, {4, 3, 3, 2}, {}),
      convolution("convolution with a stride", {2, 3, 7, 6}, {4, 3, 3, 3},
                  {.stride = {2, 1}, .padding = {1, 2}}),
      convolution("dilated convolution", {1, 2, 9, 8}, {3, 2, 3, 3},
                  {.padding = {2, 2}, .dilation = {2, 2}}),
      convolution("grouped convolution", {2, 4, 5, 5}, {6, 2, 3, 3},
                  {.padding = {1, 1}, .groups = 2}),
      convolution("convolution of channels one by one", {2, 4, 5, 5}, {4, 1, 3, 3},
                  {.stride = {2, 2}, .padding = {1, 1}, .groups = 4}),
      convolution("convolution by 1x1", {2, 3, 4, 5}, {4, 3, 1, 1}, {}),
      transposed_convolution("transposed convolution", {2, 3, 4, 5}, {3, 2, 3, 3},
                             {.stride = {2, 2}, .padding = {1, 1}}),
      transposed_convolution("transposed convolution in groups", {2, 4, 4, 3}, {4, 3, 2, 2},
                             {.stride = {2, 2}, .groups = 2}),
      binary("convolution without bias", {{2, 3, 7, 6}}, {{4, 3, 3, 2}},
             [](Value x, Value w) { return conv2d(x, w); },
             [](auto& x, auto& w) { return at::conv2d(x, w); }),
      binary("convolution of strides", transposed({2, 3, 7, 6}), {{4, 3, 3, 2}},
             [](Value x, Value w) { return conv2d(x, w); },
             [](auto& x, auto& w) { return at::conv2d(x, w); }),
  };
}

}  // namespace lowtide::testing::convolution
