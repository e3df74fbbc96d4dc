#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "slower/store.h"

namespace lowtide::runtime {

/// Tensors of the program whose bytes lie in slower memory alone while a pass runs. They keep their
/// shape, and so do all views of them. Whatever asks for their bytes in the meantime gets an error
/// of PyTorch that names the tensor and says what to do, and never other numbers.
///
/// The store must have the bytes until they are back. Functions may be called from any thread.
class AwayResidents {
 public:
  /// Throws InputError where this LibTorch cannot: before 2.13, a storage that says why it has no
  /// bytes says so for ever.
  explicit AwayResidents(std::shared_ptr<slower::Store> store);
  /// Precondition: none is away, or the tensors are not used any more.
  ~AwayResidents() = default;
  AwayResidents(const AwayResidents&) = delete;
  AwayResidents& operator=(const AwayResidents&) = delete;

  struct Resident {
    at::Tensor tensor;
    Bytes offset;  ///< in the store
    std::string name;
  };
  /// Copies the tensors to the store, then gives back their memory. Throws InputError that names a
  /// tensor whose memory is not its own, and Error where a copy fails; then none has left.
  /// Precondition: none is away.
  void send(const std::vector<Resident>& residents);
  /// Takes memory for all that are away and copies them back. Throws Error for the first one whose
  /// copy fails; that one stays away. Where there is no memory, throws what the allocator does, and
  /// all stay away.
  void bring_back();
  /// The same where nobody could hear of an error: what stays away says so when it is used.
  void try_to_bring_back() noexcept;
  /// Of the memory that was given back.
  Bytes bytes() const { return bytes_; }

 private:
  struct Away {
    c10::Storage storage;
    Bytes offset;
    std::string name;
  };

  void leave(const Resident& resident);
  void come_back(const Away& away, slower::Ticket copy, c10::DataPtr& memory);

  const std::shared_ptr<slower::Store> store_;
  std::mutex mutex_;  // of all that follows
  std::vector<Away> away_;
  std::atomic<Bytes> bytes_ = 0;
};

}  // namespace lowtide::runtime
