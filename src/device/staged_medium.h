#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "slower/medium.h"

namespace lowtide::device {

/// A medium of host memory for a device that has its own: each block goes through a piece of pinned
/// memory, between the device and there on one of two streams, one for each direction.
class StagedMedium final : public slower::Medium {
 public:
  /// `workers`: how many threads copy at once. Takes a piece of pinned memory for each. Throws
  /// Error where the system refuses that.
  StagedMedium(c10::Device device, std::unique_ptr<slower::Medium> behind, int workers);

  std::string name() const override { return behind_->name(); }
  Bytes bytes() const override { return behind_->bytes(); }
  Bytes buffer_bytes() const override;
  Bytes alignment() const override { return behind_->alignment(); }
  Bytes largest_block() const override { return behind_->largest_block(); }
  bool serves_host_memory() const override { return false; }
  /// After the work that the current stream was asked for so far.
  std::shared_ptr<const slower::Moment> now() const override;
  void write(slower::Block& block, std::span<const std::byte> data,
             const slower::Worker& worker) override;
  void read(const slower::Block& block, Bytes offset, std::span<std::byte> into,
            const slower::Worker& worker) override;

 private:
  class Lease;

  void copy(c10::Stream lane, const at::Tensor& to, const at::Tensor& from,
            const slower::Worker& worker) const;

  const c10::Device device_;
  const std::unique_ptr<slower::Medium> behind_;
  const c10::Stream out_, in_;
  const int workers_;
  std::mutex mutex_;                // of the next one
  std::vector<at::Tensor> pieces_;  // that no worker has; one for each is enough
};

}  // namespace lowtide::device
