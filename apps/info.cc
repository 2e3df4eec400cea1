// paceline info MODEL: what a model file holds, and whether it can be run.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "base/utf8.h"
#include "cli.h"
#include "engine/engine.h"
#include "model/gguf_tokenizer.h"
#include "model/model_config.h"

namespace paceline::cli {
namespace {

struct InfoOptions {
  std::string model;
  bool metadata = false;
};

void print_model(const ModelConfig& c) {
  fmt::print("architecture     {}\n", c.architecture);
  fmt::print("layers           {}\n", c.num_layers);
  fmt::print("hidden size      {}\n", c.hidden_size);
  fmt::print("feed-forward     {}\n", c.intermediate_size);
  fmt::print("attention heads  {} ({} KV heads, head size {})\n", c.num_heads, c.num_kv_heads,
             c.head_size);
  fmt::print("vocabulary       {} tokens\n", c.vocab_size);
  fmt::print("context          {} tokens\n", c.max_position);
  fmt::print("rope             theta {:g}, {} of {} dimensions\n", c.rope_theta, c.rotary_dim,
             c.head_size);
  for (const DType dtype : {DType::kFloat16, DType::kFloat8E4M3}) {
    const auto bytes = static_cast<double>(kv_bytes_per_token(c, dtype));
    fmt::print("KV cache         {} a token in {}, {} for the whole context\n", human_bytes(bytes),
               dtype_name(dtype), human_bytes(bytes * static_cast<double>(c.max_position)));
  }
}

void print_tokenizer(const Tokenizer& t) {
  const auto token = [&](const std::optional<int32_t>& id) {
    return id.has_value() ? fmt::format("{} '{}'", *id, printable(t.token_bytes(*id)))
                          : std::string("none");
  };
  fmt::print("tokenizer        byte-level BPE, pre-tokenizer {}, BOS {}, EOS {}\n",
             t.pre_tokenizer_name(), token(t.bos_id()), token(t.eos_id()));
}

void print_tensors(const GgufFile& gguf) {
  struct Total {
    int count = 0;
    size_t bytes = 0;
    int64_t elements = 0;
    bool served = true;
  };
  std::map<std::string, Total> types;
  int64_t parameters = 0;
  for (const GgufTensor& tensor : gguf.tensors()) {
    Total& total = types[tensor.type_name];
    int64_t elements = 1;
    for (const int64_t dim : tensor.shape) {
      elements *= dim;
    }
    ++total.count;
    total.bytes += tensor.bytes;
    total.elements += elements;
    total.served = tensor.format.has_value();
    parameters += elements;
  }
  fmt::print("parameters       {:.1f} M in {} tensors\n", static_cast<double>(parameters) / 1e6,
             gguf.tensors().size());
  for (const auto& [name, total] : types) {
    fmt::print("  {:<8} {:>5} tensors {:>10.1f} M weights  {}\n", name, total.count,
               static_cast<double>(total.elements) / 1e6,
               total.served ? human_bytes(static_cast<double>(total.bytes))
                            : std::string("(a type that is not served)"));
  }
}

int info(const InfoOptions& options) {
  const auto gguf = GgufFile::open(options.model);
  if (!gguf.ok()) {
    return report(gguf.status());
  }
  const GgufFile& file = **gguf;
  fmt::print("file             {} (GGUF v{}, {})\n", file.name(), file.version(),
             human_bytes(static_cast<double>(file.file_bytes())));
  if (file.has("general.name")) {
    fmt::print("name             {}\n", file.describe("general.name"));
  }
  const auto config = read_model_config(file);
  if (config.ok()) {
    print_model(*config);
  }
  const auto tokenizer = load_tokenizer(file);
  if (tokenizer.ok()) {
    print_tokenizer(**tokenizer);
  }
  print_tensors(file);
  if (options.metadata) {
    fmt::print("metadata\n");
    for (const std::string& key : file.keys()) {
      fmt::print("  {} = {}\n", printable(key), file.describe(key));
    }
  }
  const Status served = Engine::check(DeviceKind::kCpu, file);
  fmt::print("served           {}\n", served.ok() && tokenizer.ok() ? "yes" : "no");
  if (const Status status = flush_output(); !status.ok()) {
    return report(status);
  }
  int code = kSuccess;
  for (const Status* status : {&served, &tokenizer.status()}) {
    code = status->ok() ? code : report(*status);
  }
  return code;
}

}  // namespace

Run add_info(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  app.add_option("model", options->model, "Model file (GGUF)")->required();
  app.add_flag("--metadata", options->metadata, "List every metadata key of the file");
  return [options] { return info(*options); };
}

}  // namespace paceline::cli
