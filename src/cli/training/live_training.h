#pragma once

#include <string>

#include "live/running_training.h"
#include "live/server.h"
#include "train/trainer.h"

namespace lowtide::cli {

/// A page that shows a training while it runs.
class LiveTraining {
 public:
  /// `name`: of the model. Throws as live::Server.
  LiveTraining(std::uint16_t port, std::string name);

  std::string url() const { return server_.url(); }
  /// The listener, and the page hears of the same events. The page must outlive the result.
  train::TrainListener with_page(train::TrainListener listener);

 private:
  const std::string name_;
  live::RunningTraining training_;
  const live::Server server_;  // last: it asks for what the training is like
};

}  // namespace lowtide::cli
