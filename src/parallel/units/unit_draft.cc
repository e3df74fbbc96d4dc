#include "parallel/units/unit_draft.h"

#include <utility>

#include "cost/roofline.h"

namespace lowtide::parallel {
namespace {

constexpr std::string_view kCollective = "lowtide::collective";

}  // namespace

bool is_collective(const Op& op) { return op.type == kCollective; }

UnitDraft::UnitDraft(std::string name, DType compute, const cost::DeviceRates& device)
    : compute_(compute), device_(device), outbox_(0) {
  data_.name = std::move(name);
  Tensor outbox;
  outbox.name = "outbox";
  outbox.kind = Kind::resident;
  data_.tensors.push_back(std::move(outbox));
}

TensorId UnitDraft::value(const std::string& name, Bytes bytes) {
  Tensor tensor;
  tensor.name = name;
  tensor.bytes = bytes;
  data_.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(data_.tensors.size() - 1);
}

TensorId UnitDraft::receive(const std::string& name, Bytes bytes) {
  const TensorId received = value(name, bytes);
  append("receive." + name, {}, {received}).recomputable = false;
  return received;
}

void UnitDraft::send(TensorId value) {
  Op& op =
      append("send." + data_.tensors[static_cast<std::size_t>(value)].name, {value, outbox_}, {});
  op.mutates = {1};
  op.recomputable = false;
}

void UnitDraft::run(const std::string& name, std::vector<TensorId> inputs,
                    std::vector<TensorId> outputs, double flops, double extra_traffic, int over) {
  cost::Work work{.flops = flops, .bytes = extra_traffic, .dtype = compute_};
  for (TensorId id : inputs) work.bytes += static_cast<double>(bytes(id));
  for (TensorId id : outputs) work.bytes += static_cast<double>(bytes(id));
  Op& op = append(name, std::move(inputs), std::move(outputs));
  op.cost = cost::roofline_microseconds(work, device_);
  if (over >= 0) op.inplace = {{.output = 0, .input = over}};
}

void UnitDraft::communicate(const std::string& name, TensorId input, TensorId output,
                            double seconds, bool in_place) {
  Op& op = append(name, {input}, {output});
  op.type = kCollective;
  op.cost = seconds * 1e6;
  if (in_place) op.inplace = {{.output = 0, .input = 0}};
}

Op& UnitDraft::append(const std::string& name, std::vector<TensorId> inputs,
                      std::vector<TensorId> outputs) {
  Op op;
  op.name = name;
  op.type = "lowtide::" + name.substr(name.rfind('.') + 1);
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  op.phase = phase_;
  data_.ops.push_back(std::move(op));
  return data_.ops.back();
}

Graph UnitDraft::build() const { return Graph(data_); }

}  // namespace lowtide::parallel
