/* Paceline for C, and for every language that can call C: devices, streams and three-phase paged
 * attention. The calls are those of device.h, kv_cache.h and attention.h, whose comments say what
 * they do, what runs when, and what must stay alive; here stands what is different.
 *
 * Errors. Every function returns a code; PACELINE_OK is 0. paceline_last_error() tells the thread's
 * newest failure in words. Null handles, null outputs, unknown constants and wrong shapes are
 * errors. Handles that were destroyed, and pointers to memory that is not there, are undefined
 * behaviour. No exception leaves a function.
 *
 * Handles are opaque. What *_create gives, *_destroy takes back; a null handle may be destroyed. A
 * device lives as long as anything made from it, so the order of destruction is free but for one
 * rule: work that is queued on a stream must have run before the buffers and the attention it uses
 * are destroyed. Destroying a stream, or synchronizing it, makes sure of that.
 *
 * Structs with a struct_size grow at their end in later versions. Initialise them with their *_init
 * function, which sets struct_size and the defaults: `paceline_attention_spec_init(&spec, sizeof
 * spec)`. Structs of a caller made for an older library stay valid; newer ones are refused.
 *
 * Types of constants are int32_t. Booleans are 0 or 1.
 */
#ifndef PACELINE_PACELINE_H_
#define PACELINE_PACELINE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* NOLINTBEGIN: names and headers of C */

typedef int32_t paceline_status;
enum {
  PACELINE_OK = 0,
  PACELINE_INVALID_ARGUMENT = 1,
  PACELINE_UNSUPPORTED = 2,
  PACELINE_NOT_FOUND = 3,
  PACELINE_DATA_LOSS = 4,
  PACELINE_RESOURCE_EXHAUSTED = 5,
  PACELINE_FAILED_PRECONDITION = 6,
  PACELINE_INTERNAL = 7
};
/* "invalid argument"; "unknown" for what is no code. */
const char* paceline_status_name(paceline_status status);
/* Of this thread's newest call that failed; "" when none has. Valid until the next one fails. */
const char* paceline_last_error(void);

enum { PACELINE_CPU = 0, PACELINE_CUDA = 1, PACELINE_HIP = 2 };       /* device kinds */
enum { PACELINE_MEMORY_DEVICE = 0, PACELINE_MEMORY_PINNED_HOST = 1 }; /* memory kinds */
enum { PACELINE_HOST_TO_DEVICE = 0, PACELINE_DEVICE_TO_HOST = 1, PACELINE_DEVICE_TO_DEVICE = 2 };
enum {
  PACELINE_FLOAT32 = 0,
  PACELINE_FLOAT16 = 1,
  PACELINE_BFLOAT16 = 2,
  PACELINE_FLOAT8_E4M3 = 3,
  PACELINE_FLOAT8_E4M3FNUZ = 4,
  PACELINE_FLOAT8_E5M2 = 5,
  PACELINE_INT8 = 6,
  PACELINE_INT32 = 7,
  PACELINE_INT64 = 8,
  PACELINE_UINT8 = 9
};
enum { PACELINE_LAYOUT_NHD = 0, PACELINE_LAYOUT_SHUFFLE = 1 };
enum {
  PACELINE_SCALE_PER_TENSOR = 0,
  PACELINE_SCALE_PER_HEAD = 1,
  PACELINE_SCALE_PER_TOKEN_HEAD = 2
};
enum { PACELINE_DECODER = 0, PACELINE_ENCODER = 1, PACELINE_ENCODER_DECODER = 2 };
enum { PACELINE_EXTEND_IN_PLACE = 0, PACELINE_EXTEND_GATHER = 1 };

typedef struct paceline_device paceline_device;
typedef struct paceline_buffer paceline_buffer;
typedef struct paceline_stream paceline_stream;
typedef struct paceline_graph paceline_graph;
typedef struct paceline_event paceline_event;
typedef struct paceline_timeline paceline_timeline;
typedef struct paceline_attention paceline_attention;

/* ---- Devices and memory ---- */

/* "cpu"; num_threads 0: one for each processor. */
paceline_status paceline_device_create(const char* name, int32_t num_threads,
                                       paceline_device** out);
paceline_status paceline_device_destroy(paceline_device* device);
paceline_status paceline_device_kind(const paceline_device* device, int32_t* kind);
/* "cpu (2 threads, AVX2)"; the string lives as long as the device. */
paceline_status paceline_device_name(const paceline_device* device, const char** name);
typedef struct paceline_counters {
  size_t struct_size;
  uint64_t waits;
  uint64_t result_waits;
  uint64_t d2h_copies;
  uint64_t h2d_copies;
  uint64_t allocations;
  uint64_t allocated_bytes;
  uint64_t launches;
  uint64_t graph_launches;
} paceline_counters;
paceline_status paceline_counters_init(paceline_counters* counters, size_t struct_size);
paceline_status paceline_device_counters(const paceline_device* device,
                                         paceline_counters* counters);
paceline_status paceline_buffer_create(paceline_device* device, size_t bytes, int32_t memory_kind,
                                       paceline_buffer** out);
paceline_status paceline_buffer_destroy(paceline_buffer* buffer);
paceline_status paceline_buffer_data(const paceline_buffer* buffer, void** data);
paceline_status paceline_buffer_bytes(const paceline_buffer* buffer, size_t* bytes);

/* ---- Streams, graphs, events, timelines ---- */

paceline_status paceline_stream_create(paceline_device* device, paceline_stream** out);
paceline_status paceline_stream_destroy(paceline_stream* stream);
paceline_status paceline_stream_copy(paceline_stream* stream, void* dst, const void* src,
                                     size_t bytes, int32_t copy_kind);
paceline_status paceline_stream_fill(paceline_stream* stream, void* dst, uint8_t value,
                                     size_t bytes);
paceline_status paceline_stream_synchronize(paceline_stream* stream);
paceline_status paceline_stream_begin_capture(paceline_stream* stream);
paceline_status paceline_stream_end_capture(paceline_stream* stream, paceline_graph** out);
paceline_status paceline_stream_launch(paceline_stream* stream, paceline_graph* graph);
/* A graph that is queued may be destroyed: the stream keeps what it needs. */
paceline_status paceline_graph_destroy(paceline_graph* graph);
paceline_status paceline_graph_num_nodes(const paceline_graph* graph, size_t* num_nodes);
paceline_status paceline_event_create(paceline_device* device, paceline_event** out);
paceline_status paceline_event_destroy(paceline_event* event);
paceline_status paceline_event_query(const paceline_event* event, int32_t* reached);
paceline_status paceline_event_synchronize(paceline_event* event);
paceline_status paceline_stream_record(paceline_stream* stream, paceline_event* event);
paceline_status paceline_stream_wait(paceline_stream* stream, paceline_event* event);
paceline_status paceline_timeline_create(paceline_device* device, paceline_timeline** out);
paceline_status paceline_timeline_destroy(paceline_timeline* timeline);
paceline_status paceline_timeline_value(const paceline_timeline* timeline, uint64_t* value);
paceline_status paceline_timeline_wait(paceline_timeline* timeline, uint64_t target);
paceline_status paceline_stream_signal(paceline_stream* stream, paceline_timeline* timeline,
                                       uint64_t value);

/* ---- Tensors and caches ---- */

/* Shape and strides count elements. All zero: no tensor. The size of this struct is fixed. */
typedef struct paceline_tensor {
  void* data;
  int32_t dtype;
  int32_t rank; /* at most 6 */
  int64_t shape[6];
  int64_t strides[6];
} paceline_tensor;
/* A contiguous, row-major tensor. `data` is not written where a function takes a const tensor. */
paceline_status paceline_tensor_contiguous(const void* data, int32_t dtype, int32_t rank,
                                           const int64_t* shape, paceline_tensor* out);
typedef struct paceline_kv_cache_shape {
  size_t struct_size;
  int32_t layout;
  int32_t dtype;
  int64_t num_blocks;
  int32_t block_size; /* 16 */
  int32_t num_kv_heads;
  int32_t head_size;
  int32_t head_size_v; /* 0: the same as head_size */
} paceline_kv_cache_shape;
paceline_status paceline_kv_cache_shape_init(paceline_kv_cache_shape* shape, size_t struct_size);
paceline_status paceline_kv_cache_bytes(const paceline_kv_cache_shape* shape, int64_t* key_bytes,
                                        int64_t* value_bytes);

/* Scales on the device, as KVScale. The size of this struct is fixed. */
typedef struct paceline_kv_scale {
  float* data;
  int64_t block_stride;
  int64_t head_stride;
  int64_t token_stride;
} paceline_kv_scale;
typedef struct paceline_kv_cache {
  size_t struct_size;
  int32_t layout;
  int32_t reserved; /* 0 */
  paceline_tensor key;
  paceline_tensor value;
  paceline_kv_scale k_scale;
  paceline_kv_scale v_scale;
} paceline_kv_cache;
paceline_status paceline_kv_cache_init(paceline_kv_cache* cache, size_t struct_size);
/* Contiguous views over two memory blocks, without scales. `out` must be initialised. */
paceline_status paceline_kv_cache_make(const paceline_kv_cache_shape* shape, void* key, void* value,
                                       paceline_kv_cache* out);

/* ---- Attention ---- */
typedef struct paceline_attention_spec {
  size_t struct_size;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_size;
  int32_t head_size_v;
  int32_t dtype;
  int32_t kv_cache_dtype;
  int32_t kv_scale;
  int32_t kv_cache_layout;
  int32_t block_size; /* 16 */
  int32_t has_scale;  /* 0: 1/sqrt(head_size) */
  float scale;
  int32_t reorder_batch_threshold; /* 1 */
  int32_t attention_type;
  int32_t causal; /* 1 */
  int32_t sliding_window;
  int32_t attention_chunk_size;
  float logits_soft_cap;
  int32_t alibi;
  int32_t sinks;
  int32_t tree_mask;
  int32_t extend_strategy;
  int32_t extend_workspace_tokens; /* 32768 */
  const char* kernel;              /* null: the fastest */
} paceline_attention_spec;
paceline_status paceline_attention_spec_init(paceline_attention_spec* spec, size_t struct_size);
typedef struct paceline_attention_limits {
  size_t struct_size;
  int32_t max_num_seqs;
  int32_t max_num_batched_tokens;
  int64_t max_model_len;
  int64_t max_kv_tokens;
} paceline_attention_limits;
paceline_status paceline_attention_limits_init(paceline_attention_limits* limits,
                                               size_t struct_size);
/* CommonAttentionMetadata. */
typedef struct paceline_attention_batch {
  size_t struct_size;
  int32_t num_reqs;
  int32_t num_actual_tokens;
  int32_t max_query_len;
  int32_t common_prefix_len;
  const int32_t* query_start_loc_cpu;      /* [num_reqs + 1] */
  const int32_t* seq_lens_cpu_upper_bound; /* [num_reqs] */
  paceline_tensor query_start_loc;
  paceline_tensor seq_lens;
  paceline_tensor block_table;
  paceline_tensor tree_mask;
} paceline_attention_batch;
paceline_status paceline_attention_batch_init(paceline_attention_batch* batch, size_t struct_size);

/* Made by paceline_attention_build. What forward needs besides is kept in the attention's handle;
 * forward refuses metadata of any build but the newest of its handle. */
typedef struct paceline_attention_metadata {
  size_t struct_size;
  int32_t num_actual_tokens;
  int32_t num_decodes;
  int32_t num_extends;
  int32_t num_prefills;
  int32_t num_decode_tokens;
  int32_t num_extend_tokens;
  int32_t num_prefill_tokens;
  int32_t reserved;
  uint64_t build_id;
} paceline_attention_metadata;
paceline_status paceline_attention_metadata_init(paceline_attention_metadata* metadata,
                                                 size_t struct_size);

enum { PACELINE_WINDOW_OF_SPEC = -1 };
typedef struct paceline_attention_layer {
  size_t struct_size;
  const paceline_kv_cache* cache;
  int32_t sliding_window; /* PACELINE_WINDOW_OF_SPEC, or the layer's own */
  int32_t kv_sharing;
  const float* alibi_slopes;
  const float* sinks;
} paceline_attention_layer;
paceline_status paceline_attention_layer_init(paceline_attention_layer* layer, size_t struct_size);

/* The reasons why create would refuse, joined with "; "; "" when it would not. The string is this
 * thread's, valid until its next call of this function. */
paceline_status paceline_attention_why_not(int32_t device_kind, const paceline_attention_spec* spec,
                                           const char** reasons);
paceline_status paceline_attention_create(paceline_device* device,
                                          const paceline_attention_spec* spec,
                                          const paceline_attention_limits* limits,
                                          paceline_attention** out);
paceline_status paceline_attention_destroy(paceline_attention* attention);
/* The string lives as long as the handle. */
paceline_status paceline_attention_kernel_names(const paceline_attention* attention,
                                                const char** names);
paceline_status paceline_attention_workspace_bytes(const paceline_attention* attention,
                                                   size_t* bytes);
paceline_status paceline_attention_build(paceline_attention* attention, paceline_stream* stream,
                                         const paceline_attention_batch* batch,
                                         paceline_attention_metadata* metadata);
paceline_status paceline_attention_update_kv_cache(
    paceline_attention* attention, paceline_stream* stream, const paceline_tensor* k,
    const paceline_tensor* v, const paceline_tensor* slot_mapping, const paceline_kv_cache* cache);
/* k and v may be null when the layer has kv_sharing, lse always. */
paceline_status paceline_attention_forward(paceline_attention* attention, paceline_stream* stream,
                                           const paceline_attention_metadata* metadata,
                                           const paceline_attention_layer* layer,
                                           const paceline_tensor* q, const paceline_tensor* k,
                                           const paceline_tensor* v, const paceline_tensor* out,
                                           const paceline_tensor* lse);

/* NOLINTEND */
#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PACELINE_PACELINE_H_ */
