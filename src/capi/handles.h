// What the C handles hold. Members are destroyed in reverse order, so the device goes last.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "paceline/attention.h"
#include "paceline/paceline.h"

// NOLINTBEGIN(readability-identifier-naming): the names of the C header
struct paceline_device {
  std::shared_ptr<paceline::Device> device;
};

// Anything made from a device keeps it alive.
template <typename Pointer>
struct paceline_made {
  std::shared_ptr<paceline::Device> device;
  Pointer made;
};

struct paceline_buffer : paceline_made<paceline::Buffer> {};
struct paceline_stream : paceline_made<std::unique_ptr<paceline::Stream>> {};
struct paceline_graph : paceline_made<std::shared_ptr<paceline::Graph>> {};
struct paceline_event : paceline_made<std::unique_ptr<paceline::Event>> {};
struct paceline_timeline : paceline_made<std::unique_ptr<paceline::Timeline>> {};
struct paceline_attention : paceline_made<std::unique_ptr<paceline::AttentionBackend>> {
  std::string kernel_names;
  paceline::AttentionMetadata metadata;  // of the newest build
  uint64_t build_id = 0;                 // 0: none
};
// NOLINTEND(readability-identifier-naming)
