#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace lowtide::device {

/// Whether this version of LibTorch shares nodes of autograd by std::shared_ptr, as earlier ones
/// do; later ones share them by c10::intrusive_ptr.
inline constexpr bool kNodesAreShared = std::is_same_v<decltype(torch::autograd::Edge::function),
                                                       std::shared_ptr<torch::autograd::Node>>;

template <typename NodeType>
using NodePointer =
    std::conditional_t<kNodesAreShared, std::shared_ptr<NodeType>, c10::intrusive_ptr<NodeType>>;

/// A new node of autograd. Its end does not recurse through the nodes behind it.
template <typename NodeType, typename... Arguments>
NodePointer<NodeType> make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<NodePointer<NodeType>, std::shared_ptr<NodeType>>) {
    return {new NodeType(std::forward<Arguments>(arguments)...),
            [](NodeType* node) { deleteNode(node); }};
  } else {
    return c10::make_intrusive<NodeType>(std::forward<Arguments>(arguments)...);
  }
}

}  // namespace lowtide::device
