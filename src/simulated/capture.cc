#include "simulated/capture.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <utility>

#include "device/allocation.h"
#include "device/generator_state.h"
#include "simulated/allocator.h"
#include "simulated/host_views.h"
#include "simulated/state.h"

namespace lowtide::simulated {

/// The captures under way.
class Captures {
 public:
  static Captures& instance() {
    static Captures* const captures = new Captures;  // streams outlive static objects
    return *captures;
  }

  std::uint64_t add(Capture* capture) {
    const std::scoped_lock lock(mutex_);
    all_.push_back(capture);
    count_ = all_.size();
    return ++last_;
  }

  void remove(Capture* capture) {
    const std::scoped_lock lock(mutex_);
    std::erase(all_, capture);
    count_ = all_.size();
  }

  Capture* of(StreamId stream) {
    return find([&](const Capture& capture) { return capture.streams_.contains(stream); });
  }

  Capture* with_id(std::uint64_t id) {
    return find([&](const Capture& capture) { return capture.id_ == id; });
  }

  /// One that refuses what this thread does with the stream, or with the device (nullopt).
  Capture* refusing_wait(std::optional<StreamId> stream) {
    return find([&](const Capture& capture) {
      return !stream || capture.streams_.contains(*stream) || refuses(capture);
    });
  }

  Capture* refusing_unsafe() { return find(&Captures::refuses); }

  void count_work(Capture& capture, StreamId stream) {
    const std::scoped_lock lock(mutex_);
    ++capture.streams_[stream].done[stream];
  }

  CapturedMoment mark(Capture& capture, StreamId stream) {
    const std::scoped_lock lock(mutex_);
    CapturedMoment moment = capture.streams_.at(stream);
    moment.capture = capture.id_;
    return moment;
  }

  void join(Capture& capture, const CapturedMoment& moment, StreamId stream) {
    const std::scoped_lock lock(mutex_);
    for (const auto& [other, count] : moment.done) {
      std::int64_t& known = capture.streams_[stream].done[other];
      known = std::max(known, count);
    }
  }

 private:
  static bool refuses(const Capture& capture) {
    return capture.refused_ == Refused::of_all_threads ||
           (capture.refused_ == Refused::of_this_thread &&
            capture.thread_ == std::this_thread::get_id());
  }

  template <typename Matches>
  Capture* find(const Matches& matches) {
    if (count_ == 0) return nullptr;
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find_if(all_, [&](Capture* each) { return matches(*each); });
    return found == all_.end() ? nullptr : *found;
  }

  std::mutex mutex_;
  std::atomic<std::size_t> count_ = 0;
  std::uint64_t last_ = 0;
  std::vector<Capture*> all_;
};

namespace {

std::string not_permitted(std::string_view what) {
  return fmt::format("operation not permitted when stream is capturing: {}", what);
}

/// Gives each request of a piece of work the memory that it got in the capture.
class Again final : public device::MemorySource {
 public:
  explicit Again(const Recording::Work& work) : work_(work) {}

  Grant allocate(std::size_t bytes) override {
    const bool is_known =
        next_ < work_.memory.size() && work_.memory[next_].bytes == static_cast<Bytes>(bytes);
    TORCH_CHECK(is_known, work_.name,
                " asks for other memory in a replay than in the capture: ", bytes,
                " bytes as request ", next_ + 1,
                "; run it once before the capture, and without worker threads");
    return {work_.memory[next_++].data, &device::keep};
  }

 private:
  const Recording::Work& work_;
  std::size_t next_ = 0;
};

}  // namespace

void Recording::replay() const {
  for (const Work& work : work_) {
    const c10::impl::ForceDispatchKeyGuard keys(work.keys);
    Again source(work);
    const DeviceServing serving(source);
    work.submit();
  }
}

/// Gives what serves the thread gives, and notes it. Kernels write what they get, so that its bytes
/// are saved first.
class Capture::Source final : public device::MemorySource {
 public:
  Source(Capture& capture, std::vector<Recording::Range>& given)
      : capture_(capture), given_(given), source_(serving_source()) {}

  Grant allocate(std::size_t bytes) override {
    const Grant grant = source_.allocate(bytes);
    given_.push_back({grant.data, static_cast<Bytes>(bytes)});
    capture_.save(state().memory.to_host(grant.data), bytes);
    return grant;
  }

 private:
  Capture& capture_;
  std::vector<Recording::Range>& given_;
  device::MemorySource& source_;
};

Capture::Capture(StreamId origin, c10::MempoolId_t pool, Refused refused)
    : origin_(origin), pool_(pool), refused_(refused) {
  state().streams.finish(origin);
  streams_[origin_].done[origin_] = 0;
  id_ = Captures::instance().add(this);
}

Capture::~Capture() {
  if (open_) undo();
}

void Capture::record(std::string name, const std::function<Submit()>& work) {
  const std::scoped_lock lock(mutex_);
  TORCH_CHECK(failure_.empty(),
              "operation failed due to a previous error during capture: ", failure_);
  const StreamId stream = current_stream();
  Recording::Work recorded{std::move(name), nullptr, {}, c10::impl::tls_local_dispatch_key_set()};
  {
    Source source(*this, recorded.memory);
    const DeviceServing serving(source);
    const std::size_t before = saved_.size();
    recorded.submit = work();
    forget_unchanged(before);
  }
  recording_.add(std::move(recorded));
  Captures::instance().count_work(*this, stream);
}

void Capture::will_write(const at::Tensor& tensor) {
  if (!is_on_device(tensor) || tensor.storage().nbytes() == 0) return;
  save(state().memory.to_host(tensor.storage().mutable_data()), tensor.storage().nbytes());
}

void Capture::will_draw(const at::Generator& generator) {
  const bool is_known = std::ranges::any_of(
      generators_, [&](const Drawn& drawn) { return drawn.generator == generator; });
  if (is_known) return;
  std::vector<std::byte> state(static_cast<std::size_t>(device::cpu_generator_state_bytes()));
  device::save_cpu_generator(*at::check_generator<at::CPUGeneratorImpl>(generator), state.data());
  generators_.push_back({generator, std::move(state)});
}

void Capture::refuse(std::string_view why) {
  const std::string message = not_permitted(why);
  if (failure_.empty()) failure_ = message;
  TORCH_CHECK(false, message);
}

CapturedMoment Capture::mark(StreamId stream) { return Captures::instance().mark(*this, stream); }

Recording Capture::end() {
  for (const auto& [stream, moment] : streams_) {
    const auto own = moment.done.find(stream);
    if (own == moment.done.end()) continue;  // it waited, and did nothing
    const auto known = streams_.at(origin_).done.find(stream);
    const bool joined = known != streams_.at(origin_).done.end() && known->second == own->second;
    if (!joined && failure_.empty()) {
      failure_ = fmt::format("capturing stream has unjoined work: the stream where the capture "
                             "began does not wait for stream {}",
                             stream);
    }
  }
  undo();
  TORCH_CHECK(failure_.empty(),
              "operation failed due to a previous error during capture: ", failure_);
  return std::move(recording_);
}

bool Capture::overlap(const Saved& one, const Saved& other) {
  return one.data < other.data + other.bytes.size() && other.data < one.data + one.bytes.size();
}

void Capture::save(std::byte* host, std::size_t bytes) {
  saved_.push_back({host, std::vector<std::byte>(host, host + bytes)});
}

/// Of the bytes saved from the given one on, for one kernel. Where it asked for the same memory
/// again, that was saved as the kernel had left it, so that what was saved before is needed too.
void Capture::forget_unchanged(std::size_t first) {
  std::vector<Saved> needed;
  const auto end = saved_.end();
  const auto begin = saved_.begin() + static_cast<std::ptrdiff_t>(first);
  for (auto saved = begin; saved != end; ++saved) {
    const bool is_unchanged =
        std::memcmp(saved->data, saved->bytes.data(), saved->bytes.size()) == 0;
    const bool is_saved_again =
        std::any_of(saved + 1, end, [&](const Saved& later) { return overlap(*saved, later); });
    if (!is_unchanged || is_saved_again) needed.push_back(std::move(*saved));
  }
  saved_.erase(begin, end);
  std::ranges::move(needed, std::back_inserter(saved_));
}

/// Ends the capture: what it wrote is as it was at the begin.
void Capture::undo() {
  open_ = false;
  Captures::instance().remove(this);
  for (auto saved = saved_.rbegin(); saved != saved_.rend(); ++saved) {
    std::memcpy(saved->data, saved->bytes.data(), saved->bytes.size());
  }
  for (const Drawn& drawn : generators_) {
    device::restore_cpu_generator(*at::check_generator<at::CPUGeneratorImpl>(drawn.generator),
                                  drawn.state.data());
  }
  saved_.clear();
  generators_.clear();
}

Capture* capture_of(StreamId stream) { return Captures::instance().of(stream); }

void refuse_wait_for(const CapturedMoment& moment, std::string_view what) {
  if (Capture* const capture = Captures::instance().with_id(moment.capture)) capture->refuse(what);
  TORCH_CHECK(false,
              "operation not permitted on an event last recorded in a capturing stream: ", what);
}

void join_capture(const CapturedMoment& moment, StreamId stream) {
  Capture* const capture = Captures::instance().with_id(moment.capture);
  if (capture == nullptr) refuse_wait_for(moment, "a wait for it after that capture");
  Capture* const own = capture_of(stream);
  if (own != nullptr && own != capture) own->refuse("a wait for an event of another capture");
  Captures::instance().join(*capture, moment, stream);
}

void refuse_wait_in_capture(std::string_view what, std::optional<StreamId> stream) {
  Capture* const capture = Captures::instance().refusing_wait(stream);
  if (capture != nullptr) capture->refuse(what);
}

void refuse_unsafe_in_capture(std::string_view what) {
  Capture* const capture = Captures::instance().refusing_unsafe();
  if (capture != nullptr) capture->refuse(what);
}

void refuse_in_own_capture(std::string_view what) {
  Capture* const capture = capture_of(current_stream());
  if (capture != nullptr) capture->refuse(what);
}

at::Tensor borrowed(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (!is_on_device(tensor)) return tensor.detach().clone();
  c10::DataPtr data(tensor.storage().mutable_data(), kDevice);
  c10::Storage storage(c10::Storage::use_byte_size_t(), tensor.storage().nbytes(), std::move(data),
                       &allocator(), true);
  return tensor_over(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                     tensor);
}

}  // namespace lowtide::simulated
