#include "device/staged_medium.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <utility>

#include "base/at.h"
#include "device/pinned_memory.h"
#include "device/streams.h"

namespace lowtide::device {
namespace {

/// The work that a stream was asked for before.
class Asked final : public slower::Moment {
 public:
  explicit Asked(c10::Device device) : event_(device.type()) {
    event_.record(current_stream(device));
  }
  void block(c10::Stream lane) const { event_.block(lane); }

 private:
  c10::Event event_;
};

std::span<std::byte> bytes_of(const at::Tensor& piece, Bytes bytes) {
  return {static_cast<std::byte*>(piece.data_ptr()), at(bytes)};
}

}  // namespace

/// A piece that no other worker has meanwhile.
class StagedMedium::Lease {
 public:
  explicit Lease(StagedMedium& of) : of_(of) {
    const std::lock_guard lock(of_.mutex_);
    piece_ = std::move(of_.pieces_.back());
    of_.pieces_.pop_back();
  }
  ~Lease() {
    const std::lock_guard lock(of_.mutex_);
    of_.pieces_.push_back(std::move(piece_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  const at::Tensor& piece() const { return piece_; }

 private:
  StagedMedium& of_;
  at::Tensor piece_;
};

StagedMedium::StagedMedium(c10::Device device, std::unique_ptr<slower::Medium> behind, int workers)
    : device_(device),
      behind_(std::move(behind)),
      out_(new_stream(device)),
      in_(new_stream(device)),
      workers_(workers) {
  for (int worker = 0; worker < workers; ++worker) {
    pieces_.push_back(pinned_memory(behind_->largest_block()));
  }
}

Bytes StagedMedium::buffer_bytes() const {
  return behind_->buffer_bytes() + workers_ * behind_->largest_block();
}

std::shared_ptr<const slower::Moment> StagedMedium::now() const {
  return std::make_shared<Asked>(device_);
}

void StagedMedium::write(slower::Block& block, std::span<const std::byte> data,
                         const slower::Worker& worker) {
  const auto bytes = static_cast<Bytes>(data.size());
  const Lease lease(*this);
  copy(out_, part_of(lease.piece(), {0, bytes}), device_bytes(data.data(), bytes, device_), worker);
  behind_->write(block, bytes_of(lease.piece(), bytes), worker);
}

void StagedMedium::read(const slower::Block& block, Bytes offset, std::span<std::byte> into,
                        const slower::Worker& worker) {
  const auto bytes = static_cast<Bytes>(into.size());
  const Lease lease(*this);
  behind_->read(block, offset, bytes_of(lease.piece(), bytes), worker);
  copy(in_, device_bytes(into.data(), bytes, device_), part_of(lease.piece(), {0, bytes}), worker);
}

/// Ends when the bytes are there.
void StagedMedium::copy(c10::Stream lane, const at::Tensor& to, const at::Tensor& from,
                        const slower::Worker& worker) const {
  try {
    static_cast<const Asked*>(worker.asked)->block(lane);
    const c10::StreamGuard guard(lane);
    to.copy_(from, /*non_blocking=*/true);
    c10::Event copied(device_.type());
    copied.record(lane);
    copied.synchronize();
  } catch (const c10::Error& error) {
    throw copy_error(worker.value, device_, error);
  }
}

}  // namespace lowtide::device
