#pragma once

namespace lowtide::simulated {

/// The calling thread's kernels use as many threads as the program set last. Autograd's threads
/// would keep the number of when they started, and kernels with another number of threads add up
/// in another order.
void use_threads_of_process();

}  // namespace lowtide::simulated
