// Checks a step's batch, splits it, and enqueues the planning of its work on the device.
#pragma once

#include <memory>

#include "attention/dispatch.h"
#include "paceline/attention.h"

namespace paceline {

// Owns the buffers of the plan, sized once from the limits.
class MetadataBuilder {
 public:
  static Result<std::unique_ptr<MetadataBuilder>> create(Device& device, const AttentionSpec& spec,
                                                         const AttentionLimits& limits);

  Result<AttentionMetadata> build(Stream& stream, const CommonAttentionMetadata& batch);

  const PlanBuffers& plan() const { return plan_; }
  const DecodeWorkspace& workspace() const { return workspace_; }
  const GatherWorkspace& gather() const { return gather_; }
  int32_t tile_tokens() const { return tile_tokens_; }
  size_t workspace_bytes() const;

 private:
  MetadataBuilder(const AttentionSpec& spec, const AttentionLimits& limits,
                  const DeviceKernels& kernels);
  Status allocate(Device& device);
  Status allocate_gather(Device& device);
  Status check_tree(const CommonAttentionMetadata& batch, int num_decodes) const;
  Status check_batch(const CommonAttentionMetadata& batch) const;
  Status check_lengths(const CommonAttentionMetadata& batch) const;
  Status check_decode_work(const CommonAttentionMetadata& batch, int num_decodes) const;

  AttentionSpec spec_;
  AttentionLimits limits_;
  const DeviceKernels& kernels_;
  int32_t tile_tokens_;
  int64_t max_decode_work_;  // splits of all decodes of a batch
  int64_t max_tiles_;
  Buffer plan_memory_;
  Buffer partials_memory_;
  Buffer arrivals_memory_;
  Buffer gather_memory_;
  PlanBuffers plan_{};
  DecodeWorkspace workspace_{};
  GatherWorkspace gather_{};
};

}  // namespace paceline
