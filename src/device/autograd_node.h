#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace lowtide::device {

/// What holds a node of autograd's graph: a std::shared_ptr or, in newer versions of PyTorch, a
/// c10::intrusive_ptr.
using NodePointer = decltype(torch::autograd::Edge::function);

template <class Node, class... Arguments>
auto make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<NodePointer, std::shared_ptr<torch::autograd::Node>>) {
    // Freed by PyTorch's function, as that does without recursion along a deep graph.
    return std::shared_ptr<Node>(new Node(std::forward<Arguments>(arguments)...),
                                 [](Node* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
  }
}

}  // namespace lowtide::device
