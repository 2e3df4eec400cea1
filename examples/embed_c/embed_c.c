/* The C functions in use: a prompt is prefilled and checked against a naive loop. */
#include <math.h>
#include <paceline/paceline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, SIZE = 32, TOKENS = 20, BLOCK = 16, BLOCKS = 4, WIDTH = HEADS * SIZE };

static void check(paceline_status status) {
  if (status != PACELINE_OK) {
    fprintf(stderr, "%s: %s\n", paceline_status_name(status), paceline_last_error());
    exit(1);
  }
}

/* Pinned memory is read and written by both sides. */
static void* pinned(paceline_device* device, size_t bytes, paceline_buffer** buffer) {
  void* data = NULL;
  check(paceline_buffer_create(device, bytes, PACELINE_MEMORY_PINNED_HOST, buffer));
  check(paceline_buffer_data(*buffer, &data));
  return data;
}

static paceline_tensor tensor(const void* data, int32_t dtype, int32_t rank, int64_t a, int64_t b,
                              int64_t c) {
  paceline_tensor made;
  const int64_t shape[3] = {a, b, c};
  check(paceline_tensor_contiguous(data, dtype, rank, shape, &made));
  return made;
}

static float naive(const float* q, const float* k, const float* v, int position, int head, int d) {
  double sum = 0, value = 0;
  for (int j = 0; j <= position; ++j) {
    double score = 0;
    for (int i = 0; i < SIZE; ++i) {
      score += (double)q[position * WIDTH + head * SIZE + i] * k[j * WIDTH + head * SIZE + i];
    }
    const double weight = exp(score / sqrt((double)SIZE));
    sum += weight;
    value += weight * v[j * WIDTH + head * SIZE + d];
  }
  return (float)(value / sum);
}

int main(void) {
  paceline_device* device = NULL;
  paceline_stream* stream = NULL;
  paceline_attention* attention = NULL;
  paceline_buffer *cache_memory = NULL, *floats = NULL, *slot_memory = NULL, *int_memory = NULL;
  check(paceline_device_create("cpu", 0, &device));
  check(paceline_stream_create(device, &stream));

  paceline_attention_spec spec;
  paceline_attention_limits limits;
  check(paceline_attention_spec_init(&spec, sizeof spec));
  check(paceline_attention_limits_init(&limits, sizeof limits));
  spec.num_heads = spec.num_kv_heads = HEADS;
  spec.head_size = SIZE;
  limits.max_num_seqs = 1;
  limits.max_num_batched_tokens = TOKENS;
  limits.max_model_len = BLOCK * BLOCKS;
  check(paceline_attention_create(device, &spec, &limits, &attention));

  paceline_kv_cache_shape shape;
  paceline_kv_cache cache;
  paceline_attention_layer layer;
  int64_t key_bytes = 0, value_bytes = 0;
  check(paceline_kv_cache_shape_init(&shape, sizeof shape));
  check(paceline_kv_cache_init(&cache, sizeof cache));
  check(paceline_attention_layer_init(&layer, sizeof layer));
  shape.num_blocks = BLOCKS;
  shape.num_kv_heads = HEADS;
  shape.head_size = SIZE;
  check(paceline_kv_cache_bytes(&shape, &key_bytes, &value_bytes));
  char* keys = pinned(device, (size_t)(key_bytes + value_bytes), &cache_memory);
  check(paceline_kv_cache_make(&shape, keys, keys + key_bytes, &cache));
  layer.cache = &cache;

  float* q = pinned(device, 4 * TOKENS * WIDTH * sizeof(float), &floats);
  float *k = q + TOKENS * WIDTH, *v = k + TOKENS * WIDTH, *out = v + TOKENS * WIDTH;
  for (int i = 0; i < 3 * TOKENS * WIDTH; ++i) q[i] = (float)rand() / (float)RAND_MAX - 0.5F;
  int32_t* ints = pinned(device, (3 + BLOCKS) * sizeof(int32_t), &int_memory);
  int64_t* slots = pinned(device, TOKENS * sizeof(int64_t), &slot_memory);
  const int32_t values[3 + BLOCKS] = {0, TOKENS, TOKENS, 2, 0, 3, 1}; /* starts, length, blocks */
  memcpy(ints, values, sizeof values);
  for (int t = 0; t < TOKENS; ++t) slots[t] = values[3 + t / BLOCK] * BLOCK + t % BLOCK;

  paceline_attention_batch batch;
  paceline_attention_metadata metadata;
  check(paceline_attention_batch_init(&batch, sizeof batch));
  check(paceline_attention_metadata_init(&metadata, sizeof metadata));
  batch.num_reqs = 1;
  batch.num_actual_tokens = batch.max_query_len = TOKENS;
  batch.query_start_loc_cpu = ints;
  batch.seq_lens_cpu_upper_bound = ints + 2;
  batch.query_start_loc = tensor(ints, PACELINE_INT32, 1, 2, 0, 0);
  batch.seq_lens = tensor(ints + 2, PACELINE_INT32, 1, 1, 0, 0);
  batch.block_table = tensor(ints + 3, PACELINE_INT32, 2, 1, BLOCKS, 0);
  const paceline_tensor tq = tensor(q, PACELINE_FLOAT32, 3, TOKENS, HEADS, SIZE);
  const paceline_tensor tk = tensor(k, PACELINE_FLOAT32, 3, TOKENS, HEADS, SIZE);
  const paceline_tensor tv = tensor(v, PACELINE_FLOAT32, 3, TOKENS, HEADS, SIZE);
  const paceline_tensor tout = tensor(out, PACELINE_FLOAT32, 3, TOKENS, HEADS, SIZE);
  const paceline_tensor tslots = tensor(slots, PACELINE_INT64, 1, TOKENS, 0, 0);
  check(paceline_attention_build(attention, stream, &batch, &metadata));
  check(paceline_attention_update_kv_cache(attention, stream, &tk, &tv, &tslots, &cache));
  check(
      paceline_attention_forward(attention, stream, &metadata, &layer, &tq, &tk, &tv, &tout, NULL));
  paceline_counters counters;
  check(paceline_counters_init(&counters, sizeof counters));
  check(paceline_device_counters(device, &counters));
  check(paceline_stream_synchronize(stream));

  float largest = 0;
  for (int i = 0; i < TOKENS * WIDTH; ++i) {
    const float expected = naive(q, k, v, i / WIDTH, i % WIDTH / SIZE, i % SIZE);
    const float difference = fabsf(out[i] - expected);
    largest = difference <= largest ? largest : difference; /* keeps NaN */
  }
  printf("launches %d, largest difference from the naive loop: %g\n", (int)counters.launches,
         (double)largest);
  check(paceline_stream_destroy(stream)); /* first: it runs what is queued */
  check(paceline_attention_destroy(attention));
  check(paceline_buffer_destroy(cache_memory));
  check(paceline_buffer_destroy(floats));
  check(paceline_buffer_destroy(slot_memory));
  check(paceline_buffer_destroy(int_memory));
  check(paceline_device_destroy(device));
  return largest < 1e-5F ? 0 : 1;
}
