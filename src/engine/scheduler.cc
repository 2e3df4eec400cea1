#include "engine/scheduler.h"

#include <algorithm>

#include "attention/batch_split.h"
#include "attention/split_plan.h"
#include "base/errors.h"

namespace paceline {

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "none";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAborted:
      return "abort";
    case FinishReason::kError:
      return "error";
  }
  return "unknown";
}

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options), allocator_(options.num_blocks) {
  for (int32_t slot = options.max_num_seqs - 1; slot >= 0; --slot) {
    free_slots_.push_back(slot);
  }
}

Status Scheduler::add(const RequestPtr& request) {
  const auto prompt = static_cast<int64_t>(request->prompt.size());
  if (prompt == 0) {
    return invalid_argument("the prompt is empty; at least one token is needed");
  }
  if (prompt >= options_.max_model_len) {
    return invalid_argument(
        "the prompt has {} tokens; at most {} leave room for one more in max_model_len {}", prompt,
        options_.max_model_len - 1, options_.max_model_len);
  }
  // The last token sampled is never computed.
  const int64_t most = std::min(options_.max_model_len, prompt + request->sampling.max_tokens) - 1;
  const int64_t blocks = ceil_div(most, options_.block_size);
  if (blocks > allocator_.num_blocks()) {
    return invalid_argument(
        "the prompt of {} tokens with max_tokens {} needs up to {} cache blocks of {} tokens; the "
        "cache has {}",
        prompt, request->sampling.max_tokens, blocks, options_.block_size, allocator_.num_blocks());
  }
  waiting_.push_back(request);
  return {};
}

bool Scheduler::has_more_to_run(const Request& request) const {
  return request.num_sampled() < request.sampling.max_tokens &&
         request.num_tokens() < options_.max_model_len;
}

bool Scheduler::reserve_blocks(Request& request, int64_t num_tokens) {
  const int64_t needed = ceil_div(request.num_computed + num_tokens, options_.block_size) -
                         static_cast<int64_t>(request.blocks.size());
  return needed <= 0 || allocator_.allocate(needed, request.blocks).ok();
}

void Scheduler::release(Request& request) {
  if (!request.blocks.empty()) {
    // Blocks came from this allocator: the call cannot fail.
    (void)allocator_.free(request.blocks).ok();
  }
  if (request.slot >= 0) {
    free_slots_.push_back(request.slot);
    request.slot = -1;
  }
}

void Scheduler::preempt_last() {
  const RequestPtr request = running_.back();
  running_.pop_back();
  release(*request);
  request->num_computed = 0;
  ++request->num_preemptions;
  ++num_preemptions_;
  waiting_.push_front(request);
}

void Scheduler::finish(Request& request, FinishReason reason) {
  request.finished = reason;
  release(request);
  const auto is_it = [&](const RequestPtr& other) { return other.get() == &request; };
  std::erase_if(running_, is_it);
  std::erase_if(waiting_, is_it);
}

ScheduledRow Scheduler::launch(const RequestPtr& request, int64_t num_tokens) {
  ScheduledRow row{request, request->num_computed, static_cast<int32_t>(num_tokens), false};
  row.samples = request->num_computed + num_tokens == request->num_tokens();
  request->num_computed += num_tokens;
  request->in_flight += row.samples ? 1 : 0;
  return row;
}

void Scheduler::schedule_running(int64_t& budget, std::vector<ScheduledRow>& rows,
                                 bool& preempted) {
  for (size_t i = 0; i < running_.size() && budget > 0; ++i) {
    const RequestPtr request = running_[i];
    const int64_t left = request->num_tokens() - request->num_computed;
    const int64_t count = std::min(left, budget);
    if (count <= 0 || !has_more_to_run(*request)) {
      continue;  // its last tokens are in flight
    }
    // Younger requests make room for older ones; the youngest, itself included, goes first.
    bool reserved = reserve_blocks(*request, count);
    while (!reserved && running_.size() > i) {
      preempt_last();
      preempted = true;
      reserved = running_.size() > i && reserve_blocks(*request, count);
    }
    if (reserved) {
      rows.push_back(launch(request, count));
      budget -= count;
    }
  }
}

void Scheduler::schedule_waiting(int64_t& budget, std::vector<ScheduledRow>& rows) {
  while (!waiting_.empty() && budget > 0 && !free_slots_.empty()) {
    const RequestPtr request = waiting_.front();
    // A preempted request may have a token in flight that the host does not know yet.
    if (request->in_flight > 0) {
      return;
    }
    const int64_t count = std::min(request->num_tokens(), budget);
    if (!reserve_blocks(*request, count)) {
      return;
    }
    waiting_.pop_front();
    request->slot = free_slots_.back();
    free_slots_.pop_back();
    running_.push_back(request);
    rows.push_back(launch(request, count));
    budget -= count;
  }
}

void Scheduler::order(std::vector<ScheduledRow>& rows) const {
  std::vector<int32_t> scheduled;
  std::vector<int32_t> computed;
  for (const ScheduledRow& row : rows) {
    scheduled.push_back(row.num_tokens);
    computed.push_back(static_cast<int32_t>(row.num_computed));
  }
  const std::vector<int> order =
      reorder_batch(scheduled, computed, options_.reorder_batch_threshold);
  std::vector<ScheduledRow> ordered;
  ordered.reserve(rows.size());
  for (const int index : order) {
    ordered.push_back(std::move(rows[static_cast<size_t>(index)]));
  }
  rows = std::move(ordered);
}

std::vector<ScheduledRow> Scheduler::schedule() {
  std::vector<ScheduledRow> rows;
  int64_t budget = options_.max_num_batched_tokens;
  bool preempted = false;
  schedule_running(budget, rows, preempted);
  if (!preempted) {
    schedule_waiting(budget, rows);
  }
  order(rows);
  return rows;
}

bool Scheduler::collect(Request& request, int32_t token, bool is_end) {
  --request.in_flight;
  if (request.finished != FinishReason::kNone) {
    return false;
  }
  if (token < 0) {
    finish(request, FinishReason::kError);
    return true;
  }
  request.output.push_back(token);
  if (is_end && !request.sampling.ignore_eos) {
    finish(request, FinishReason::kStop);
  } else if (static_cast<int64_t>(request.output.size()) >= request.sampling.max_tokens ||
             request.num_known() >= options_.max_model_len) {
    finish(request, FinishReason::kLength);
  }
  return true;
}

bool Scheduler::abort(uint64_t id) {
  const auto find_in = [id](const auto& requests) -> RequestPtr {
    const auto it = std::find_if(requests.begin(), requests.end(),
                                 [id](const RequestPtr& request) { return request->id == id; });
    return it == requests.end() ? nullptr : *it;
  };
  RequestPtr request = find_in(running_);
  if (request == nullptr) {
    request = find_in(waiting_);
  }
  if (request != nullptr) {
    finish(*request, FinishReason::kAborted);
  }
  return request != nullptr;
}

}  // namespace paceline
