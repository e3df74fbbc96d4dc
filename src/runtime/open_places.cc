#include "runtime/open_places.h"

#include <stdexcept>
#include <utility>

#include "plan/places.h"
#include "slower/joined_store.h"

namespace lowtide::runtime {
namespace {

/// Null where nothing lies.
std::unique_ptr<slower::Store> opened(const slower::Place* place, Bytes bytes) {
  if (bytes == 0) return nullptr;
  if (place == nullptr) throw std::logic_error("the plan uses a place that is not there");
  return place->open(bytes);
}

}  // namespace

std::unique_ptr<slower::Store> open_places(const SlowerMemory& wanted, const slower::Place* first,
                                           const slower::Place* second) {
  const PlaceBytes bytes = bytes_of_places(wanted);
  if (!wanted.second) return first->open(bytes.first);
  auto in_first = opened(first, bytes.first);
  return std::make_unique<slower::JoinedStore>(std::move(in_first), opened(second, bytes.second));
}

}  // namespace lowtide::runtime
