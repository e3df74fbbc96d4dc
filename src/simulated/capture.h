#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "simulated/hardware/streams.h"

namespace lowtide::simulated {

/// Submits a piece of recorded work to the thread's current stream.
using Submit = std::function<void()>;

/// The work that was asked of a stream during a capture.
class Recording {
 public:
  struct Range {
    void* data;
    Bytes bytes;
  };
  struct Work {
    std::string name;
    Submit submit;
    std::vector<Range> memory;  ///< what its requests got, in order
    c10::impl::LocalDispatchKeySet keys;
  };

  void add(Work work) { work_.push_back(std::move(work)); }
  const std::vector<Work>& work() const { return work_; }
  /// Submits all of it in order. Requests get the memory that they got in the capture.
  void replay() const;

 private:
  std::vector<Work> work_;
};

/// Which calls that may wait for the device are refused while a stream is captured, as CUDA's
/// modes: of all threads, of the thread that began the capture, or none but those that concern the
/// capture itself.
enum class Refused : std::uint8_t { of_all_threads, of_this_thread, of_the_capture };

/// A place in a capture, which an event recorded there stands for.
struct CapturedMoment {
  std::uint64_t capture = 0;
  std::map<StreamId, std::int64_t> done;  ///< pieces of work of each stream that lie before it
};

/// From its begin to its end, records the work asked of a stream, and of those that wait for it.
///
/// Kernels run during the capture, since the caller needs the sizes of their results; when it ends,
/// memory and generators are as they were at the begin. Nobody sees the difference: whatever reads
/// the device's memory meanwhile is refused.
class Capture {
 public:
  Capture(StreamId origin, c10::MempoolId_t pool, Refused refused);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  StreamId origin() const { return origin_; }
  c10::MempoolId_t pool() const { return pool_; }

  /// Runs `work`, whose result submits it again, and records that.
  void record(std::string name, const std::function<Submit()>& work);
  /// To be called within record(), before the bytes of the tensor's storage may change.
  void will_write(const at::Tensor& tensor);
  /// To be called within record(), before numbers are drawn from a generator of the host.
  void will_draw(const at::Generator& generator);

  /// The capture is of no use from now on. Throws c10::Error with the reason.
  [[noreturn]] void refuse(std::string_view why);
  CapturedMoment mark(StreamId stream);
  /// Ends the capture. Throws c10::Error when something was refused meanwhile, or when a stream
  /// that joined was not waited for.
  Recording end();

 private:
  friend class Captures;
  class Source;

  void save(std::byte* host, std::size_t bytes);
  void forget_unchanged(std::size_t first);
  void undo();

  std::uint64_t id_;
  StreamId origin_;
  c10::MempoolId_t pool_;
  Refused refused_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::mutex mutex_;
  bool open_ = true;
  std::string failure_;  ///< why it is of no use; empty when it is
  Recording recording_;
  std::map<StreamId, CapturedMoment> streams_;
  struct Saved {
    std::byte* data;
    std::vector<std::byte> bytes;
  };
  static bool overlap(const Saved& one, const Saved& other);

  std::vector<Saved> saved_;
  struct Drawn {
    at::Generator generator;  ///< of the host
    std::vector<std::byte> state;
  };
  std::vector<Drawn> generators_;
};

/// The capture that the stream belongs to; null for none.
Capture* capture_of(StreamId stream);
/// The stream waits for the moment, and so becomes part of its capture. Throws c10::Error when that
/// has ended, or the stream belongs to another one.
void join_capture(const CapturedMoment& moment, StreamId stream);

/// Throws c10::Error for a wait of the host for a place in a capture, which is never reached.
[[noreturn]] void refuse_wait_for(const CapturedMoment& moment, std::string_view what);

/// Throws c10::Error where a call that waits for the stream, or for the device (nullopt), is
/// refused because of a capture; `what` names the call.
void refuse_wait_in_capture(std::string_view what, std::optional<StreamId> stream);
/// The same for a call that waits for no stream, but that captures refuse.
void refuse_unsafe_in_capture(std::string_view what);
/// Throws c10::Error while the thread's current stream is captured.
void refuse_in_own_capture(std::string_view what);

/// A tensor over the same bytes of the device that does not keep them alive, as a graph has it. Of
/// a tensor of the CPU a copy.
at::Tensor borrowed(const at::Tensor& tensor);

}  // namespace lowtide::simulated
