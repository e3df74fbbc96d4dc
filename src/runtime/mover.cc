#include "runtime/mover.h"

#include <exception>
#include <span>

namespace lowtide::runtime {

void Mover::out(TensorId storage, const std::byte* data, Bytes bytes, Bytes offset,
                const std::string& name) {
  under_way_[storage] =
      store_->write(offset, std::span(data, static_cast<std::size_t>(bytes)), name);
}

void Mover::in(TensorId storage, std::byte* data, Bytes bytes, Bytes offset,
               const std::string& name) {
  under_way_[storage] =
      store_->read(offset, std::span(data, static_cast<std::size_t>(bytes)), name);
}

void Mover::wait(TensorId storage) {
  const auto copy = under_way_.extract(storage);
  if (!copy.empty()) store_->wait(copy.mapped());
}

void Mover::await_all() noexcept {
  while (!under_way_.empty()) {
    try {
      wait(under_way_.begin()->first);
    } catch (const std::exception&) {  // of a step that has failed already
    }
  }
}

}  // namespace lowtide::runtime
