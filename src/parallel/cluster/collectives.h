#pragma once

#include "parallel/cluster/cluster.h"

namespace lowtide::parallel {

/// Seconds of collective operations by rings, which move the fewest bytes (Patarasuk and Yuan,
/// Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009): each of p ranks
/// sends (p - 1) / p of the bytes for an all-gather or a reduce-scatter, twice that for an
/// all-reduce. A ring over several nodes is as fast as the link between them. A group of one rank
/// takes no time. More bandwidth or less latency never makes one slower.

/// `bytes`: of the whole result, which every rank has afterwards.
double all_gather_seconds(const Cluster& cluster, const Group& group, double bytes);
/// `bytes`: of the whole input that every rank has before.
double reduce_scatter_seconds(const Cluster& cluster, const Group& group, double bytes);
/// `bytes`: of the tensor that every rank has before and afterwards.
double all_reduce_seconds(const Cluster& cluster, const Group& group, double bytes);
/// From one rank to another.
double send_seconds(const Link& link, double bytes);

}  // namespace lowtide::parallel
