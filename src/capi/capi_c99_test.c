/* The header from C99: one request is written to the cache and attends to itself. Two tokens with
 * equal keys: the first sees its own value, the second the mean of both. */
#include <stdio.h>
#include <string.h>

#include "paceline/paceline.h"

int capi_c99_test(void);

#define CHECK(condition)                                        \
  do {                                                          \
    if (!(condition)) {                                         \
      printf("line %d: %s\n", __LINE__, paceline_last_error()); \
      return __LINE__;                                          \
    }                                                           \
  } while (0)
#define OK(call) CHECK((call) == PACELINE_OK)

static paceline_tensor tensor(const void* data, int32_t dtype, int32_t rank, int64_t a, int64_t b,
                              int64_t c) {
  paceline_tensor made;
  const int64_t shape[3] = {a, b, c};
  memset(&made, 0, sizeof made);
  (void)paceline_tensor_contiguous(data, dtype, rank, shape, &made);
  return made;
}

int capi_c99_test(void) {
  paceline_device* device = NULL;
  paceline_stream* stream = NULL;
  paceline_attention* attention = NULL;
  OK(paceline_device_create("cpu", 1, &device));
  OK(paceline_stream_create(device, &stream));

  paceline_attention_spec spec;
  paceline_attention_limits limits;
  const char* text = NULL;
  OK(paceline_attention_spec_init(&spec, sizeof spec));
  OK(paceline_attention_limits_init(&limits, sizeof limits));
  spec.num_heads = 1;
  spec.num_kv_heads = 1;
  spec.head_size = 8;
  limits.max_num_seqs = 1;
  limits.max_num_batched_tokens = 2;
  limits.max_model_len = 16;
  OK(paceline_attention_why_not(PACELINE_CPU, &spec, &text));
  CHECK(strcmp(text, "") == 0);
  OK(paceline_attention_create(device, &spec, &limits, &attention));
  OK(paceline_attention_kernel_names(attention, &text));
  CHECK(strstr(text, "prefill: ") != NULL);

  float key[16 * 8];
  float value[16 * 8];
  paceline_kv_cache_shape shape;
  paceline_kv_cache cache;
  paceline_attention_layer layer;
  OK(paceline_kv_cache_shape_init(&shape, sizeof shape));
  OK(paceline_kv_cache_init(&cache, sizeof cache));
  OK(paceline_attention_layer_init(&layer, sizeof layer));
  shape.num_blocks = 1;
  shape.num_kv_heads = 1;
  shape.head_size = 8;
  OK(paceline_kv_cache_make(&shape, key, value, &cache));
  layer.cache = &cache;

  /* The CPU's device memory is the host's: arrays on the stack serve this test. */
  const int32_t starts[2] = {0, 2};
  const int32_t lengths[1] = {2};
  const int32_t blocks[1] = {0};
  const int64_t slots[2] = {0, 1};
  float tokens[2 * 8];
  float values[2 * 8];
  float output[2 * 8];
  for (int i = 0; i < 16; ++i) {
    tokens[i] = 0.5F;
    values[i] = i < 8 ? 1.0F : 3.0F;
    output[i] = -1.0F;
  }
  const paceline_tensor k = tensor(tokens, PACELINE_FLOAT32, 3, 2, 1, 8);
  const paceline_tensor v = tensor(values, PACELINE_FLOAT32, 3, 2, 1, 8);
  const paceline_tensor out = tensor(output, PACELINE_FLOAT32, 3, 2, 1, 8);
  const paceline_tensor slot_mapping = tensor(slots, PACELINE_INT64, 1, 2, 0, 0);
  paceline_attention_batch batch;
  paceline_attention_metadata metadata;
  OK(paceline_attention_batch_init(&batch, sizeof batch));
  OK(paceline_attention_metadata_init(&metadata, sizeof metadata));
  batch.num_reqs = 1;
  batch.num_actual_tokens = 2;
  batch.max_query_len = 2;
  batch.query_start_loc_cpu = starts;
  batch.seq_lens_cpu_upper_bound = lengths;
  batch.query_start_loc = tensor(starts, PACELINE_INT32, 1, 2, 0, 0);
  batch.seq_lens = tensor(lengths, PACELINE_INT32, 1, 1, 0, 0);
  batch.block_table = tensor(blocks, PACELINE_INT32, 2, 1, 1, 0);
  OK(paceline_attention_update_kv_cache(attention, stream, &k, &v, &slot_mapping, &cache));
  OK(paceline_attention_build(attention, stream, &batch, &metadata));
  OK(paceline_attention_forward(attention, stream, &metadata, &layer, &k, &k, &v, &out, NULL));
  OK(paceline_stream_synchronize(stream));
  CHECK(metadata.num_prefills == 1);
  for (int i = 0; i < 16; ++i) {
    CHECK(output[i] == (i < 8 ? 1.0F : 2.0F));
  }
  OK(paceline_stream_destroy(stream)); /* runs what is queued */
  OK(paceline_attention_destroy(attention));
  OK(paceline_device_destroy(device));
  return 0;
}
