#include "cli/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/private_file.h"
#include "cli/interrupt.h"
#include "cli/model_path.h"

namespace quire::cli {
namespace {

constexpr uint64_t kMaxTemplateBytes = 1 << 20;
// Left to the rest of the process and to the system, so that filling the window does not end in
// the system killing processes.
constexpr int64_t kMemoryReserve = int64_t{256} << 20;
// The same for the disk of spilled pages.
constexpr int64_t kDiskReserve = int64_t{256} << 20;

}  // namespace

Result<std::optional<std::string>> read_chat_template(const Environment& env,
                                                      const ModelOptions& options) {
  if (!options.chat_template_file) return std::optional<std::string>();
  QUIRE_TRY(std::string text, env.files.read(*options.chat_template_file, kMaxTemplateBytes));
  return std::optional(std::move(text));
}

Result<LoadedModel> load_model(const Environment& env, const ModelOptions& options,
                               std::string_view command, Output& output) {
  QUIRE_TRY(const std::string path, only_model(env, options.models, command));
  engine::ModelOptions load;
  QUIRE_TRY(load.chat_template, read_chat_template(env, options));
  load.rope_stretch = options.rope_stretch;
  load.progress = [&output](double share) {
    output.progress("loading the model", share);
    return !interrupted();
  };
  const Stopwatch watch;
  LoadedModel loaded;
  QUIRE_TRY(loaded.model, engine::Model::load(env.files, path, load));
  loaded.load_ms = watch.ms();
  output.clear_progress();
  output.detail(fmt::format("loaded {} ({} of weights) in {:.0f} ms", loaded.model->path(),
                            format_bytes(loaded.model->weights_bytes()), loaded.load_ms));
  if (const auto& stretch = loaded.model->rope_stretch()) {
    output.remark(
        fmt::format("--rope-scaling {}: the context is stretched to {} tokens; answers "
                    "may be worse than within the trained length",
                    name(*stretch), loaded.model->config().context));
  }
  return loaded;
}

std::string model_name(const engine::Model& model) {
  std::string_view path = model.path();
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

int64_t cache_budget(const Machine& machine) {
  return std::max<int64_t>(machine.available_memory_bytes - kMemoryReserve, 0);
}

void warn_of_coarse_codecs(Output& output, kv::KvCodecs codecs) {
  if (codecs.k != kv::Codec::Q2 && codecs.v != kv::Codec::Q2) return;
  output.remark(
      fmt::format("warning: --kv {} keeps 2 bits a number, and the answers suffer: about "
                  "every fourth likeliest token is another one; q3 and up are usable",
                  kv::name(codecs)));
}

void warn_of_many_threads(const Environment& env, Output& output, const ComputeOptions& compute) {
  if (!compute.threads) return;
  const int64_t processors = inspect_machine(env.files).processors;
  if (*compute.threads <= processors) return;
  output.remark(fmt::format(
      "warning: --threads {}, but only {} processor{} may be used here (affinity and cgroup quota "
      "counted), so threads take turns and each step waits for the last; --threads {} is faster",
      *compute.threads, processors, processors == 1 ? "" : "s", processors));
}

engine::EngineOptions engine_options(const Environment& env, const ComputeOptions& compute,
                                     const CacheOptions& cache) {
  const Machine machine = inspect_machine(env.files);
  engine::EngineOptions options;
  options.threads =
      compute.threads ? static_cast<int32_t>(*compute.threads) : machine.default_threads;
  options.context_tokens = compute.context;
  options.cache = cache.cache;
  options.kv = cache.kv;
  options.activations = compute.activations;
  options.prefill_chunk = static_cast<int32_t>(compute.prefill_chunk);
  options.memory_bytes = cache_budget(machine);
  options.isa = env.isa;
  const std::string spill_dir = cache.spill_dir.value_or(env.home + "/spill");
  const bool is_ours = !cache.spill_dir;
  options.spill_room = [spill_dir, is_ours]() -> Result<int64_t> {
    if (is_ours) QUIRE_TRY_VOID(create_private_directories(spill_dir));
    QUIRE_TRY(const int64_t free, free_disk_bytes(spill_dir));
    return std::max<int64_t>(0, free - kDiskReserve);
  };
  options.open_spill_file = [spill_dir] { return create_private_file(spill_dir); };
  return options;
}

}  // namespace quire::cli
