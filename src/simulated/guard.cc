#include "simulated/guard.h"

#include <c10/core/Allocator.h>
#include <c10/core/DeviceCapability.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "device/graph.h"
#include "simulated/capture.h"
#include "simulated/state.h"

namespace lowtide::simulated {
namespace {

struct Event {
  Moment moment;
  std::shared_ptr<TimeStamp> stamp;
  bool timed = false;
  std::optional<CapturedMoment> captured = std::nullopt;  ///< where it is a place in a capture
};

/// Of a wait of the host for an event.
void require_outside_captures(const Event& event, std::string_view what) {
  if (event.captured) refuse_wait_for(*event.captured, what);
  refuse_unsafe_in_capture(what);
}

void require_this_device(c10::Device device) {
  TORCH_CHECK(device.type() == kDeviceType && device.index() <= 0,
              "there is one simulated device, with index 0, and not ", device);
}

c10::Stream stream_of(StreamId id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }

/// Of an event that was recorded, and that came.
std::chrono::steady_clock::time_point time_of(const Event* event) {
  TORCH_CHECK(event != nullptr && event->stamp != nullptr, "the event was not recorded");
  TORCH_CHECK(event->timed, "the event has no time; make it with enable_timing=True");
  TORCH_CHECK(state().streams.reached(event->moment), "the event has not come yet");
  return *event->stamp->time;
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    require_this_device(device);
    return kDevice;
  }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device device) const override { require_this_device(device); }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }

  c10::Stream getStream(c10::Device) const override { return stream_of(current_stream()); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream_of(0); }
  c10::Stream getNewStream(c10::Device, int) const override {
    return stream_of(state().streams.add());
  }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    return stream_of(state().streams.add());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return stream_of(exchange_current_stream(stream.id()));
  }
  void* getStreamNativeHandle(c10::Stream) const override { return nullptr; }
  bool queryStream(const c10::Stream& stream) const override {
    refuse_wait_in_capture("a query of a stream", stream.id());
    return state().streams.poll(state().streams.end(stream.id()));
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    refuse_wait_in_capture("a wait for a stream", stream.id());
    state().streams.finish(stream.id());
    state().streams.drop_owners();
  }
  void synchronizeDevice(c10::DeviceIndex) const override {
    refuse_wait_in_capture("a wait for the device", std::nullopt);
    state().streams.finish_all();
    state().streams.drop_owners();
  }

#ifdef LOWTIDE_DEVICE_GRAPHS
  bool isStreamCapturing(const c10::Stream& stream) const override {
    return capture_of(stream.id()) != nullptr;
  }
#endif

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex,
              c10::EventFlag flag) const override {
    if (*event == nullptr) *event = new Event;
    Event& recorded = *static_cast<Event*>(*event);
    recorded.stamp = std::make_shared<TimeStamp>();
    recorded.timed = flag == c10::EventFlag::BACKEND_DEFAULT;
    Capture* const capture = capture_of(stream.id());
    recorded.captured =
        capture == nullptr ? std::nullopt : std::optional(capture->mark(stream.id()));
    if (capture == nullptr) recorded.moment = state().streams.record(stream.id(), recorded.stamp);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const Event& awaited = *static_cast<const Event*>(event);
    if (awaited.captured) return join_capture(*awaited.captured, stream.id());
    if (Capture* const capture = capture_of(stream.id())) {
      capture->refuse("a wait for an event that was recorded outside the capture");
    }
    state().streams.wait(stream.id(), awaited.moment);
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    const Event& asked = *static_cast<const Event*>(event);
    require_outside_captures(asked, "a query of an event");
    return state().streams.poll(asked.moment);
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    require_outside_captures(*static_cast<const Event*>(event), "a wait for an event");
    state().streams.finish(static_cast<const Event*>(event)->moment);
    state().streams.drop_owners();
  }
  double elapsedTime(void* first, void* second, c10::DeviceIndex) const override {
    using Milliseconds = std::chrono::duration<double, std::milli>;
    const auto from = time_of(static_cast<const Event*>(first));
    return Milliseconds(time_of(static_cast<const Event*>(second)) - from).count();
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    state().memory.use(data.get(), stream.id());
  }
};

}  // namespace

const c10::impl::DeviceGuardImplInterface& guard() {
  static const Guard* const instance = new Guard;  // outlives every stream of the program
  return *instance;
}

}  // namespace lowtide::simulated
