#include "simulated/kernel_threads.h"

#include <ATen/Parallel.h>

namespace lowtide::simulated {

void use_threads_of_process() { at::init_num_threads(); }

}  // namespace lowtide::simulated
